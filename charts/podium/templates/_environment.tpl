{{/* What a service reads from its environment. tests/chart loads the services' own settings from it. */}}

{{/* Arguments: root, name, component. */}}
{{- define "podium.environment" -}}
{{- $root := .root }}{{ $name := .name }}{{ $c := .component }}{{ $prefix := $c.settingsPrefix }}
{{- if ne $c.protocol "none" }}
- {name: {{ $prefix }}HOST, value: {{ include "podium.listenAddress" (dict "root" $root "protocol" $c.protocol) | quote }}}
- {name: {{ $prefix }}PORT, value: {{ $c.port | toString | quote }}}
- {name: {{ $prefix }}DRAIN_WAIT_S, value: {{ $c.drain.waitSeconds | toString | quote }}}
- {name: {{ $prefix }}DRAIN_GRACE_S, value: {{ $c.drain.graceSeconds | toString | quote }}}
{{- else }}
- {name: {{ $prefix }}HOST, value: 0.0.0.0}
{{- /* The keeper of engines stops at once: the next process repeats a round that is cut off. */}}
{{- if ne $name "policy-engines" }}
- {name: {{ $prefix }}GRACEFUL_SHUTDOWN_S, value: {{ $c.drain.graceSeconds | toString | quote }}}
{{- end }}
{{- end }}
{{- if ne $c.protocol "http" }}
- {name: {{ $prefix }}HEALTH_PORT, value: {{ include "podium.healthPort" . | quote }}}
{{- end }}
{{- if eq $c.protocol "grpc" }}
- {name: {{ $prefix }}VERIFY_KEYS_FILE, value: /etc/podium/identity/verify-keys.json}
{{- end }}
{{- include "podium.signingEnvironment" . }}
{{- range $callee := $c.calls }}
{{- include "podium.calleeEnvironment" (dict "root" $root "name" $name "component" $c "callee" $callee) }}
{{- end }}
{{- if $root.Values.tls.enabled }}
- {name: {{ $prefix }}TLS__CERTIFICATE, value: /etc/podium/tls/tls.crt}
- {name: {{ $prefix }}TLS__PRIVATE_KEY, value: /etc/podium/tls/tls.key}
- {name: {{ $prefix }}TLS__AUTHORITY, value: /etc/podium/tls/ca.crt}
{{- if eq $c.protocol "grpc" }}
- {name: {{ $prefix }}ALLOWED_CLIENTS, value: {{ (include "podium.allowedClients" (dict "root" $root "name" $name) | fromJson).names | toJson | quote }}}
{{- end }}
{{- end }}
{{- include "podium.telemetryEnvironment" . }}
{{- if and (eq $name "tool-adapters") $root.Values.experts }}
{{- $hosts := list }}{{ range $expert := keys $root.Values.experts | sortAlpha }}{{ $hosts = append $hosts (include "podium.expertHost" (dict "root" $root "name" $expert)) }}{{ end }}
- {name: {{ $prefix }}OWN_SERVERS, value: {{ toJson $hosts | quote }}}
{{- end }}
{{- if and (eq $name "gateway") $root.Values.ingress.enabled (not $c.settings.public_url) }}
- {name: {{ $prefix }}PUBLIC_URL, value: "https://{{ $root.Values.ingress.host }}"}
{{- end }}
{{- /* A number as JSON: as text 2000000 would be 2e+06, which is no integer. */}}
{{- range $setting, $value := $c.settings }}
- {name: {{ $prefix }}{{ upper $setting }}, value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}}
{{- end }}
{{- range $setting, $reference := $c.secretSettings }}
{{ include "podium.secretVariable" (dict "root" $root "owner" $name "purpose" $setting "reference" $reference "variable" (printf "%s%s" $prefix (upper $setting))) }}
{{- end }}
{{- range $setting, $_ := $c.secretFiles }}
- {name: {{ $prefix }}{{ upper $setting }}, value: /etc/podium/secrets/{{ $setting }}}
{{- end }}
{{- range $variable, $value := $c.env }}
- {name: {{ $variable }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* gRPC takes 0.0.0.0 for every address of both families; the gateway's server takes nothing for them. */}}
{{- define "podium.listenAddress" -}}
{{- if not (and .root.Values.dualStack (eq .protocol "http")) -}}0.0.0.0{{- end -}}
{{- end }}

{{/* The gateway names its key's file, the others have a group of two settings. */}}
{{- define "podium.signingEnvironment" -}}
{{- if .component.signingKey }}
- {name: {{ .component.settingsPrefix }}{{ ternary "SIGNING_KEY_ID" "SIGNING_KEY__KEY_ID" (eq .component.protocol "http") }}, value: {{ .name }}}
- {name: {{ .component.settingsPrefix }}{{ ternary "SIGNING_KEY_FILE" "SIGNING_KEY__PRIVATE_KEY_FILE" (eq .component.protocol "http") }}, value: /etc/podium/signing/key.pem}
{{- end }}
{{- end }}

{{/* The settings that say where a callee is. Arguments: root, name, component, callee. */}}
{{- define "podium.calleeEnvironment" -}}
{{- $prefix := .component.settingsPrefix }}{{ $endpoints := .root.Values.endpoints }}
{{- if eq .callee "postgres" }}
{{ include "podium.secretVariable" (dict "root" .root "owner" .name "purpose" "database-url" "reference" .component.database "variable" (printf "%sDATABASE_URL" $prefix)) }}
{{- with .component.ownerDatabase }}
{{ include "podium.secretVariable" (dict "root" $.root "owner" $.name "purpose" "owner-database-url" "reference" . "variable" (printf "%sOWNER_DATABASE_URL" $prefix)) }}
{{- end }}
{{- else if eq .callee "temporal" }}
- {name: {{ $prefix }}TEMPORAL_TARGET, value: {{ $endpoints.temporal.target | quote }}}
- {name: {{ $prefix }}TEMPORAL_NAMESPACE, value: {{ $endpoints.temporal.namespace | quote }}}
- {name: {{ $prefix }}TASK_QUEUE, value: {{ .component.taskQueue | default $endpoints.temporal.taskQueue | quote }}}
{{- include "podium.temporalEnvironment" . }}
{{- else if eq .callee "kafka" }}
{{- include "podium.kafkaEnvironment" . }}
{{- range $setting, $topic := .component.topics }}
- {name: {{ $prefix }}{{ upper $setting }}, value: {{ (index $.root.Values.kafka $topic).topic | quote }}}
{{- end }}
{{- else if eq .callee "model-server" }}
- {name: {{ $prefix }}ENGINE_BASE_URL, value: {{ include "podium.engineUrl" .root | quote }}}
- {name: {{ $prefix }}DEFAULT_MODEL, value: {{ include "podium.engineModel" .root | quote }}}
- {name: {{ $prefix }}MODEL_SKU, value: {{ .root.Values.inference.sku | quote }}}
- {name: {{ $prefix }}PROMPT_MODE, value: {{ .root.Values.inference.promptMode }}}
{{- with .root.Values.inference.apiKey }}
{{ include "podium.secretVariable" (dict "root" $.root "owner" "inference" "purpose" "api-key" "reference" . "variable" (printf "%sENGINE_API_KEY" $prefix)) }}
{{- end }}
{{- include "podium.versionEnvironment" (dict "root" .root "prefix" $prefix) }}
{{- else if eq .callee "policy-engine" }}
- {name: {{ $prefix }}MERGED_ENGINE_URLS, value: {{ list (printf "http://%s:%s/v1" (include "podium.host" (dict "root" .root "name" "policy-engine")) (include "podium.enginePort" .root)) | toJson | quote }}}
{{- else if eq .callee "kubernetes" }}
- {name: {{ $prefix }}NAMESPACE, value: {{ .root.Release.Namespace }}}
- {name: {{ $prefix }}KIND, value: {{ ternary "InferenceService" "LLMInferenceService" (eq .root.Values.inference.mode "inferenceService") }}}
- {name: {{ $prefix }}BLUEPRINT, value: {{ include "podium.modelName" .root }}}
- {name: {{ $prefix }}CLAIM, value: {{ .root.Values.inference.adapters.claimName }}}
- {name: {{ $prefix }}POLICY_STORE, value: /mnt/adapters}
{{- else if eq .callee "gateway" }}
- {name: {{ $prefix }}GATEWAY_TARGET, value: {{ include "podium.gatewayUrl" .root | quote }}}
{{- else if ne .callee "internet" }}
- {name: {{ $prefix }}{{ .callee | upper | replace "-" "_" }}_TARGET, value: "dns:///{{ include "podium.host" (dict "root" .root "name" .callee) }}:{{ (index .root.Values.components .callee).port }}"}
{{- end }}
{{- end }}

{{- define "podium.telemetryEnvironment" -}}
{{- $prefix := printf "%sTELEMETRY__" .component.settingsPrefix }}{{ $values := .root.Values }}
- {name: {{ $prefix }}METRICS_HOST, value: {{ ternary "::" "0.0.0.0" $values.dualStack | quote }}}
- {name: {{ $prefix }}METRICS_PORT, value: {{ $values.monitoring.metricsPort | toString | quote }}}
- {name: {{ $prefix }}LOG_LEVEL, value: {{ $values.monitoring.logLevel }}}
- {name: {{ $prefix }}LOG_PROMPTS, value: {{ $values.monitoring.logPrompts | toString | quote }}}
{{- /* A component that calls no other has no egress, not even for traces. */ -}}
{{- with and .component.calls $values.endpoints.otlp.endpoint }}
- {name: {{ $prefix }}MODE, value: otlp}
- {name: {{ $prefix }}OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- end }}
