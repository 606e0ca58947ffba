{{/* One CRD. Arguments: root, kind, plural, singular, columns (of the status), spec (an OpenAPI schema). `helm uninstall`
     keeps it: with it would go every object. */}}
{{- define "podium-crds.crd" -}}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {{ .plural }}.podium.dev
  annotations: {helm.sh/resource-policy: keep}
  labels:
    app.kubernetes.io/name: podium-crds
    app.kubernetes.io/part-of: podium
    app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
    app.kubernetes.io/managed-by: {{ .root.Release.Service }}
    {{- with .root.Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  group: podium.dev
  scope: Namespaced
  names: {kind: {{ .kind }}, listKind: {{ .kind }}List, plural: {{ .plural }}, singular: {{ .singular }}, categories: [podium]}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      additionalPrinterColumns:
        - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
        {{- range .columns }}
        - {{ toJson . }}
        {{- end }}
        - {name: Reason, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].reason'}
        - {name: Message, type: string, priority: 1, jsonPath: '.status.conditions[?(@.type=="Ready")].message'}
        - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec: {{- .spec | nindent 14 }}
            status:
              type: object
              properties:
                observedGeneration: {type: integer, format: int64}
                version: {type: integer, format: int64, description: Version in the platform that the spec is.}
                digest: {type: string, description: Digest of that version's content.}
                prices: {type: integer, description: How many prices of the list hold.}
                closed: {type: boolean, description: Whether the budget was closed.}
                conditions:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [type]
                  items:
                    type: object
                    required: [type, status, reason, message, lastTransitionTime]
                    properties:
                      type: {type: string}
                      status: {type: string, enum: ["True", "False", Unknown]}
                      reason: {type: string}
                      message: {type: string}
                      lastTransitionTime: {type: string, format: date-time}
                      observedGeneration: {type: integer, format: int64}
{{- end }}

{{- define "podium-crds.version" -}}
{{- list (dict "name" "Version" "type" "integer" "jsonPath" ".status.version") | toJson -}}
{{- end }}
