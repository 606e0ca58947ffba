{{/* What the Job of bootstrap makes, from the values; the services' own references are its list. */}}

{{/* Whom the Job calls, as JSON; an empty list where it is off. Argument: root. */}}
{{- define "podium.bootstrapCalls" -}}
{{- $b := .Values.bootstrap }}{{ $calls := list }}
{{- if $b.enabled }}
{{- $calls = append $calls "kubernetes" }}
{{- if or $b.databases.enabled (include "podium.bootstrapsContents" .) }}{{ $calls = append $calls "postgres" }}{{ end }}
{{- if $b.temporal.enabled }}{{ $calls = append $calls "temporal" }}{{ end }}
{{- if include "podium.bootstrapsTopics" . }}{{ $calls = append $calls "kafka" }}{{ end }}
{{- if include "podium.bootstrapsContents" . }}{{ $calls = append $calls "gateway" }}{{ end }}
{{- end }}
{{- toJson $calls -}}
{{- end }}

{{/* Strimzi makes topics where it is. */}}
{{- define "podium.bootstrapsTopics" -}}
{{- if and .Values.bootstrap.topics.enabled (not .Values.integrations.strimzi.enabled) -}}true{{- end -}}
{{- end }}

{{- define "podium.bootstrapsContents" -}}
{{- $b := .Values.bootstrap }}
{{- if or $b.tenant.enabled $b.prices.bundled $b.prices.list $b.tools.bundled $b.library.bundled $b.policies $b.budgets .Values.experts -}}true{{- end -}}
{{- end }}

{{/* The Secret of all keys, where every reference of a key names that one; otherwise no one but you knows where they are. */}}
{{- define "podium.bootstrapIdentity" -}}
{{- $c := include "podium.components" . | fromJson }}
{{- $references := list .Values.identity.verifyKeys }}
{{- range $name := list "gateway" "episodes" "episode-worker" "tool-adapters" }}{{ $references = append $references (index $c $name).signingKey }}{{ end }}
{{- with (index $c "cost-ledger").secretFiles }}{{ with .anchor_key_file }}{{ $references = append $references . }}{{ end }}{{ end }}
{{- $names := list }}
{{- range $references }}{{ $names = append $names (ternary .secretName "" (not (or .externalSecret .configMapName))) }}{{ end }}
{{- if and .Values.bootstrap.identity.enabled (eq (len (uniq $names)) 1) -}}{{ first $names }}{{- end -}}
{{- end }}

{{/* Whether certificates of mutual TLS are made here: cert-manager makes them where it is. */}}
{{- define "podium.bootstrapsCertificates" -}}
{{- $b := .Values.bootstrap }}
{{- if and .Values.tls.enabled $b.enabled $b.certificates.enabled (not .Values.integrations.certManager.enabled) -}}true{{- end -}}
{{- end }}

{{- define "podium.certificateHolder" -}}
{{- dict "secret" (printf "%s-tls" (include "podium.name" .)) "dns_names" (include "podium.certificateNames" . | fromJsonArray) "uri" (include "podium.spiffeId" .) | toJson -}}
{{- end }}

{{/* Seconds of a duration such as 720h or 1h30m. */}}
{{- define "podium.seconds" -}}
{{- $seconds := 0 }}
{{- range $part := regexFindAll "[0-9]+[hms]" . -1 }}
{{- $unit := index (dict "h" 3600 "m" 60 "s" 1) (trunc -1 $part) }}
{{- $seconds = add $seconds (mul (trimAll "hms" $part | int) $unit) }}
{{- end }}
{{- $seconds -}}
{{- end }}

{{/* Roles of the services with their databases, as JSON. Argument: root. */}}
{{- define "podium.bootstrapRoles" -}}
{{- $root := . }}{{ $roles := list }}{{ $c := include "podium.components" . | fromJson }}
{{- range $name, $database := dict "gateway" "gateway" "episodes" "episodes" "tool-registry" "tool_registry" "tool-adapters" "tool_adapters" "cost-ledger" "cost_ledger" }}
{{- with (index $c $name).ownerDatabase }}
{{- $roles = append $roles (dict "role" $database "database" $database "owns" true "external" (hasKey . "externalSecret") "url" (include "podium.bootstrapReference" (dict "root" $root "owner" $name "purpose" "owner-database-url" "reference" .) | fromJson)) }}
{{- end }}
{{- $owns := empty (index $c $name).ownerDatabase }}
{{- with (index $c $name).database }}
{{- $roles = append $roles (dict "role" (ternary $database (printf "%s_service" $database) $owns) "database" $database "owns" $owns "external" (hasKey . "externalSecret") "url" (include "podium.bootstrapReference" (dict "root" $root "owner" $name "purpose" "database-url" "reference" .) | fromJson)) }}
{{- end }}
{{- end }}
{{- toJson $roles -}}
{{- end }}

{{- define "podium.bootstrapReference" -}}
{{- dict "secret" (include "podium.secretName" .) "key" (include "podium.secretKey" .) | toJson -}}
{{- end }}

{{/* The plan that the Job reads. Argument: root. */}}
{{- define "podium.bootstrapPlan" -}}
{{- $b := .Values.bootstrap }}{{ $of := dict "root" . "name" "bootstrap" }}
{{- $roles := include "podium.bootstrapRoles" . | fromJsonArray }}
release: {{ .Release.Name }}
namespace: {{ .Release.Namespace }}
{{- with include "podium.bootstrapIdentity" . }}
identity_secret: {{ . }}
{{- end }}
{{- if include "podium.bootstrapsCertificates" . }}
certificates:
  authority_secret: {{ include "podium.name" (dict "root" . "name" "authority") }}
  lasting_s: {{ include "podium.seconds" .Values.tls.duration }}
  renewed_before_s: {{ include "podium.seconds" .Values.tls.renewBefore }}
  holders:
    {{- range $name, $_ := include "podium.components" . | fromJson }}
    - {{ include "podium.certificateHolder" (dict "root" $ "name" $name) }}
    {{- end }}
{{- end }}
{{- if $b.databases.enabled }}
databases:
  admin: {secret: {{ $b.databases.admin.secretName }}, key: {{ $b.databases.admin.key }}}
  roles:
    {{- range $roles }}
    - {{ toJson . }}
    {{- end }}
{{- end }}
{{- if $b.temporal.enabled }}
temporal_retention_hours: {{ $b.temporal.retentionHours }}
{{- end }}
{{- if include "podium.bootstrapsTopics" . }}
topics:
  {{- range list .Values.kafka.trajectories .Values.kafka.alerts }}
  - topic: {{ .topic }}
    partitions: {{ .partitions }}
    replicas: {{ .replicas }}
    min_in_sync_replicas: {{ .minInSyncReplicas }}
    retention_hours: {{ .retentionHours }}
    max_message_bytes: {{ int64 .maxMessageBytes }}
  {{- end }}
{{- end }}
{{- if include "podium.bootstrapsContents" . }}
contents:
  tenant_key_secret: {{ include "podium.name" (dict "root" . "name" "api-keys") }}
  platform_key_secret: {{ include "podium.platformKeySecret" . }}
  {{- range $roles }}{{ if eq .role "gateway" }}
  gateway_database: {{ toJson .url }}
  {{- end }}{{ end }}
  tenant: {{ ternary $b.tenant.name "" $b.tenant.enabled | quote }}
  bundled_prices: {{ $b.prices.bundled }}
  bundled_tools: {{ $b.tools.bundled }}
  library: {{ $b.library.bundled }}
  runs_code: {{ hasKey (include "podium.components" . | fromJson) "sandbox" }}
  bundled_tools_map: {{ include "podium.name" (dict "root" . "name" "bundled") }}
  {{- $prices := $b.prices.list }}{{ $tools := list }}
  {{- range $name := keys .Values.experts | sortAlpha }}
  {{- $expert := dict "root" $ "name" $name }}
  {{- $prices = append $prices (include "podium.expertPrice" $expert | fromJson) }}
  {{- $tools = append $tools (include "podium.expertTool" $expert | fromJson) }}
  {{- end }}
  prices: {{ toJson $prices }}
  tools: {{ toJson $tools }}
  policies: {{ toJson $b.policies }}
  budgets: {{ toJson $b.budgets }}
  model_sku: {{ .Values.inference.sku | quote }}
{{- end }}
{{- end }}

{{/* Where its servers are: the settings of podium_operations.bootstrap. Argument: root. */}}
{{- define "podium.bootstrapEnvironment" -}}
{{- $component := dict "settingsPrefix" "BOOTSTRAP_" "calls" (include "podium.bootstrapCalls" . | fromJsonArray) }}
{{- $of := dict "root" . "name" "bootstrap" "component" $component }}
- {name: BOOTSTRAP_PLAN_FILE, value: /etc/podium/bootstrap/plan.yaml}
{{- if has "temporal" $component.calls }}
- {name: BOOTSTRAP_TEMPORAL_TARGET, value: {{ .Values.endpoints.temporal.target | quote }}}
- {name: BOOTSTRAP_TEMPORAL_NAMESPACE, value: {{ .Values.endpoints.temporal.namespace | quote }}}
{{- include "podium.temporalEnvironment" $of }}
{{- with (include "podium.component" (dict "root" . "name" "episodes") | fromYaml).secretSettings }}
{{- with .temporal__api_key }}
{{ include "podium.secretVariable" (dict "root" $ "owner" "episodes" "purpose" "temporal__api_key" "reference" . "variable" "BOOTSTRAP_TEMPORAL__API_KEY") }}
{{- end }}
{{- end }}
{{- end }}
{{- if has "kafka" $component.calls }}
{{- include "podium.kafkaEnvironment" $of }}
{{- end }}
{{- if has "gateway" $component.calls }}
- {name: BOOTSTRAP_GATEWAY_TARGET, value: {{ include "podium.gatewayUrl" . | quote }}}
{{- if .Values.tls.enabled }}
- {name: BOOTSTRAP_GATEWAY_AUTHORITY, value: {{ include "podium.gatewayAuthorityFile" . }}}
{{- end }}
{{- end }}
{{- range $variable, $value := .Values.bootstrap.env }}
- {name: {{ $variable }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* The key of the platform's administrator, apart from the tenant's, which others read. Argument: root. */}}
{{- define "podium.platformKeySecret" -}}
{{- include "podium.name" (dict "root" . "name" "platform-api-key") -}}
{{- end }}

{{/* The pod of the Job. Argument: root. */}}
{{- define "podium.bootstrapPod" -}}
{{- $of := dict "root" . "name" "bootstrap" }}
{{- $name := include "podium.name" $of }}
{{- $within := merge (dict "component" (dict "calls" (include "podium.bootstrapCalls" . | fromJsonArray))) $of }}
{{- $gateway := include "podium.component" (dict "root" . "name" "gateway") | fromYaml -}}
metadata:
  labels: {{- include "podium.labels" $of | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ $name }}
  {{- include "podium.podSecurity" . | nindent 2 }}
  {{- include "podium.placement" (dict "root" . "name" "bootstrap" "from" $gateway) | nindent 2 }}
  containers:
    - name: bootstrap
      image: {{ include "podium.image" (dict "root" . "image" $gateway.image) }}
      imagePullPolicy: {{ $gateway.image.pullPolicy }}
      args: [podium_operations.bootstrap]
      env: {{- include "podium.bootstrapEnvironment" . | trim | nindent 8 }}
      resources:
        requests: {cpu: 100m, memory: 256Mi}
        limits: {memory: 512Mi}
      securityContext: {{- include "podium.containerSecurity" (dict "readOnly" true) | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: plan, mountPath: /etc/podium/bootstrap, readOnly: true}
        - {name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
        {{- if has "gateway" $within.component.calls }}{{ include "podium.gatewayAuthorityMount" . | trim | nindent 8 }}{{ end }}
        {{- include "podium.kafkaMounts" $within | trim | nindent 8 }}
        {{- include "podium.temporalMounts" $within | trim | nindent 8 }}
        {{- with .Values.bootstrap.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 64Mi}}
    - {name: plan, configMap: {name: {{ $name }}}}
    {{- include "podium.account" 3600 | nindent 4 }}
    {{- if has "gateway" $within.component.calls }}{{ include "podium.gatewayAuthorityVolume" (dict "root" . "optional" (include "podium.bootstrapsCertificates" .)) | trim | nindent 4 }}{{ end }}
    {{- include "podium.kafkaVolumes" $within | trim | nindent 4 }}
    {{- include "podium.temporalVolumes" $within | trim | nindent 4 }}
    {{- with .Values.bootstrap.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}
