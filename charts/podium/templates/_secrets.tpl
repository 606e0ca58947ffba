{{/* Secrets are references. Arguments of all: root, owner (a component), purpose, reference. */}}

{{/* Name of the Secret: the one referred to, or the one external-secrets makes. */}}
{{- define "podium.secretName" -}}
{{- if .reference.externalSecret -}}
{{ include "podium.fullname" .root }}-{{ .owner }}-{{ .purpose | replace "_" "-" }}
{{- else -}}
{{ .reference.secretName }}
{{- end -}}
{{- end }}

{{- define "podium.secretKey" -}}
{{ if .reference.externalSecret }}value{{ else }}{{ .reference.key }}{{ end }}
{{- end }}

{{/* One environment variable from a secret. Argument: also variable. */}}
{{- define "podium.secretVariable" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ include "podium.secretName" . }}
      key: {{ include "podium.secretKey" . }}
{{- end }}

{{/* A source of a projected volume: one file from a Secret or a ConfigMap. Argument: also file. */}}
{{- define "podium.fileSource" -}}
{{- if and .reference.configMapName (not .reference.externalSecret) -}}
- configMap:
    name: {{ .reference.configMapName }}
    items: [{key: {{ .reference.key }}, path: {{ .file }}}]
{{- else -}}
- secret:
    name: {{ include "podium.secretName" . }}
    items: [{key: {{ include "podium.secretKey" . }}, path: {{ .file }}}]
{{- end -}}
{{- end }}

{{- define "podium.externalSecret" -}}
{{- with .reference.externalSecret }}
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata:
  name: {{ include "podium.secretName" $ }}
  labels: {{- include "podium.labels" (dict "root" $.root "name" $.owner) | nindent 4 }}
spec:
  refreshInterval: 1h
  secretStoreRef: {name: {{ .store }}, kind: {{ .storeKind | default "SecretStore" }}}
  target: {name: {{ include "podium.secretName" $ }}, creationPolicy: Owner, deletionPolicy: Retain}
  data:
    - secretKey: value
      remoteRef:
        key: {{ .remoteKey | quote }}
        {{- with .property }}
        property: {{ . | quote }}
        {{- end }}
        conversionStrategy: Default
        decodingStrategy: None
        metadataPolicy: None
{{- end }}
{{- end }}
