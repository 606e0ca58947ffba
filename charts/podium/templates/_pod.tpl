{{/* The one pod template of the services: Kubernetes' restricted profile, in one place. */}}

{{/* Arguments: root, name, component. */}}
{{- define "podium.pod" -}}
{{- $c := .component -}}
metadata:
  labels:
    {{- include "podium.labels" . | nindent 4 }}
    {{- with $c.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: {{ .name }}
    {{- include "podium.scrapeAnnotations" .root | nindent 4 }}
    {{- with $c.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "podium.name" . }}
  {{- include "podium.podSecurity" .root | nindent 2 }}
  {{- if ($c.userNamespaces | default dict).enabled }}
  hostUsers: false
  {{- end }}
  terminationGracePeriodSeconds: {{ $c.terminationGracePeriodSeconds }}
  {{- include "podium.placement" (dict "root" .root "name" .name "from" $c) | nindent 2 }}
  {{- include "podium.spread" . | nindent 2 }}
  containers:
    - name: {{ .name }}
      image: {{ include "podium.image" (dict "root" .root "image" $c.image) }}
      imagePullPolicy: {{ $c.image.pullPolicy }}
      args: {{ toJson $c.args }}
      env: {{- include "podium.environment" . | trim | nindent 8 }}
      ports: {{- include "podium.containerPorts" . | trim | nindent 8 }}
      {{- include "podium.probes" . | nindent 6 }}
      resources: {{- toYaml $c.resources | nindent 8 }}
      securityContext: {{- include "podium.containerSecurity" (dict "readOnly" true "userNamespaces" $c.userNamespaces) | nindent 8 }}
      volumeMounts: {{- include "podium.mounts" . | trim | nindent 8 }}
  volumes: {{- include "podium.volumes" . | trim | nindent 4 }}
{{- end }}

{{/* Pod-level half of the restricted profile. Argument: root. */}}
{{- define "podium.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with .Values.podSecurity.user }}
  runAsUser: {{ int64 . }}
  {{- end }}
  {{- with .Values.podSecurity.group }}
  runAsGroup: {{ int64 . }}
  fsGroup: {{ int64 . }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Container-level half. Arguments: readOnly, false only where the GPU's device hook writes; userNamespaces of the
     one component that makes namespaces: a masked /proc would forbid a fresh one, the default profile the calls. */}}
{{- define "podium.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: {{ .readOnly }}
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- if (.userNamespaces | default dict).enabled }}
procMount: Unmasked
seccompProfile: {type: Localhost, localhostProfile: {{ .userNamespaces.seccompProfile }}}
{{- else }}
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- end }}

{{/* Arguments: root, from (anything with these keys). */}}
{{- define "podium.placement" -}}
{{- with .from.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .from.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .from.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .from.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "podium.spread" -}}
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    whenUnsatisfiable: {{ .component.topologySpread.zone }}
    labelSelector: {matchLabels: {{ include "podium.selector" . | fromYaml | toJson }}}
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: {{ .component.topologySpread.node }}
    labelSelector: {matchLabels: {{ include "podium.selector" . | fromYaml | toJson }}}
{{- end }}

{{- define "podium.containerPorts" -}}
{{- if ne .component.protocol "none" }}
- {name: {{ .component.protocol }}, containerPort: {{ .component.port }}, protocol: TCP}
{{- end }}
{{- if ne .component.protocol "http" }}
- {name: health, containerPort: {{ include "podium.healthPort" . }}, protocol: TCP}
{{- end }}
- {name: metrics, containerPort: {{ .root.Values.monitoring.metricsPort }}, protocol: TCP}
{{- end }}

{{/* gRPC probes go to the plaintext port: the kubelet's speak no TLS. Starting takes as long as migrations: startupSeconds. */}}
{{- define "podium.probes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" .root.Values.tls.enabled }}
{{- $live := dict "httpGet" (dict "path" "/healthz" "port" "http" "scheme" $scheme) }}
{{- $ready := dict "httpGet" (dict "path" "/readyz" "port" "http" "scheme" $scheme) }}
{{- if ne .component.protocol "http" }}
{{- $port := include "podium.healthPort" . | int }}
{{- $live = dict "grpc" (dict "port" $port "service" "liveness") }}
{{- $ready = dict "grpc" (dict "port" $port "service" "readiness") }}
{{- end -}}
startupProbe: {{- merge (dict "periodSeconds" 2 "failureThreshold" (div .component.startupSeconds 2) "timeoutSeconds" 2) $live | toYaml | nindent 2 }}
livenessProbe: {{- merge (dict "periodSeconds" 10 "failureThreshold" 6 "timeoutSeconds" 5) $live | toYaml | nindent 2 }}
readinessProbe: {{- merge (dict "periodSeconds" 5 "failureThreshold" 2 "timeoutSeconds" 5) $ready | toYaml | nindent 2 }}
{{- end }}

{{- define "podium.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if eq .component.protocol "grpc" }}
- {name: identity, mountPath: /etc/podium/identity, readOnly: true}
{{- end }}
{{- if .component.signingKey }}
- {name: signing, mountPath: /etc/podium/signing, readOnly: true}
{{- end }}
{{- if .component.secretFiles }}
- {name: secrets, mountPath: /etc/podium/secrets, readOnly: true}
{{- end }}
{{- if .root.Values.tls.enabled }}
- {name: tls, mountPath: /etc/podium/tls, readOnly: true}
{{- end }}
{{- include "podium.kafkaMounts" . }}
{{- include "podium.temporalMounts" . }}
{{- if and (has "model-server" .component.calls) (include "podium.servesVersions" .root) }}
- {name: adapters, mountPath: /mnt/adapters}
{{- end }}
{{- include "podium.accountMounts" . }}
{{- with .component.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "podium.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 1Gi}}
{{- if eq .component.protocol "grpc" }}
- name: identity
  projected:
    defaultMode: 0440
    sources: {{- include "podium.fileSource" (dict "root" .root "owner" "identity" "purpose" "verify-keys" "reference" .root.Values.identity.verifyKeys "file" "verify-keys.json") | nindent 6 }}
{{- end }}
{{- with .component.signingKey }}
- name: signing
  projected:
    defaultMode: 0440
    sources: {{- include "podium.fileSource" (dict "root" $.root "owner" $.name "purpose" "signing-key" "reference" . "file" "key.pem") | nindent 6 }}
{{- end }}
{{- with .component.secretFiles }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $setting, $reference := . }}
      {{- include "podium.fileSource" (dict "root" $.root "owner" $.name "purpose" $setting "reference" $reference "file" $setting) | nindent 6 }}
      {{- end }}
{{- end }}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ include "podium.name" . }}-tls, defaultMode: 0440}
{{- end }}
{{- include "podium.kafkaVolumes" . }}
{{- include "podium.temporalVolumes" . }}
{{- if and (has "model-server" .component.calls) (include "podium.servesVersions" .root) }}
- {name: adapters, persistentVolumeClaim: {claimName: {{ .root.Values.inference.adapters.claimName }}}}
{{- end }}
{{- include "podium.accountVolumes" . }}
{{- with .component.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where no operator scrapes, these annotations are what Prometheus' own discovery reads. */}}
{{- define "podium.scrapeAnnotations" -}}
{{- if not .Values.integrations.prometheusOperator.enabled -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.monitoring.metricsPort | toString | quote }}
{{- end -}}
{{- end }}
