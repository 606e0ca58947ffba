{{/* Experts: what each is made of, which tool it is, and what it costs. */}}

{{/* One expert over its defaults, as JSON. Arguments: root, name. */}}
{{- define "podium.expert" -}}
{{- $inference := .root.Values.inference }}
{{- $defaults := dict "accelerators" 1 "maxReplicas" 1 "scaleToZero" "" "callsPerReplica" 8 "idleSeconds" 300 "timeoutSeconds" 900 "maxOutputTokens" 1024 "image" $inference.engine.image "extraArgs" list "env" dict "resources" $inference.resources }}
{{- /* merge takes 0 accelerators for an unset value. */}}
{{- range $key, $value := index .root.Values.experts .name }}{{ $_ := set $defaults $key $value }}{{ end }}
{{- toJson $defaults -}}
{{- end }}

{{/* Names of the experts that `scaler` scales to zero, as JSON. Arguments: root, scaler. */}}
{{- define "podium.expertsOf" -}}
{{- $names := list }}
{{- range $name, $expert := .root.Values.experts }}{{ if eq (toString $expert.scaleToZero) $.scaler }}{{ $names = append $names $name }}{{ end }}{{ end }}
{{- toJson $names -}}
{{- end }}

{{/* Of its InferenceService, its Service, and its model there. Arguments: root, name. */}}
{{- define "podium.expertName" -}}
{{ include "podium.name" (dict "root" .root "name" (printf "expert-%s" .name)) }}
{{- end }}

{{/* Where tool-adapters find it: under Knative at its ingress, which starts a pod and holds the call meanwhile. */}}
{{- define "podium.expertHost" -}}
{{- $predictor := ternary "-predictor" "" (eq (include "podium.expert" . | fromJson).scaleToZero "knative") }}
{{- include "podium.expertName" . }}{{ $predictor }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end }}

{{- define "podium.expertUrl" -}}
http://{{ include "podium.expertHost" . }}{{ ternary "" ":8080" (eq (include "podium.expert" . | fromJson).scaleToZero "knative") }}/v1
{{- end }}

{{- define "podium.expertSku" -}}expert/{{ .name }}{{- end }}

{{- define "podium.expertSelector" -}}
{{ include "podium.selector" (dict "root" .root "name" "expert") }}
podium.dev/expert: {{ .name }}
{{- end }}

{{/* Documents of the Job: the tool, as `podium tools apply` reads it. Arguments: root, name. */}}
{{- define "podium.expertTool" -}}
{{- $expert := include "podium.expert" . | fromJson }}
{{- $model := dict "alias" .name "model" (include "podium.expertName" .) "baseUrl" (include "podium.expertUrl" .) "api" "LLM_API_OPENAI_CHAT" "sku" (include "podium.expertSku" .) "description" $expert.description "tags" (list "on-premise") }}
{{- dict
  "name" (replace "-" "_" .name)
  "kind" "TOOL_KIND_LLM"
  "description" (printf "Asks a language model to solve the task: it sees the task and earlier results, and takes no question. %s" $expert.description)
  "parametersJsonSchema" "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}"
  "connection" (dict "llm" (dict "models" (list $model) "role" "LLM_ROLE_GENERALIST" "maxOutputTokens" $expert.maxOutputTokens))
  "limits" (dict "timeout" (printf "%ds" (int $expert.timeoutSeconds)) "maxConcurrency" (min 256 (mul $expert.callsPerReplica $expert.maxReplicas)))
  "sideEffect" "SIDE_EFFECT_PURE"
  "capabilities" (list "language-model")
  "tags" (list "expert" "on-premise")
| toJson -}}
{{- end }}

{{/* Its list price. Arguments: root, name. */}}
{{- define "podium.expertPrice" -}}
{{- $price := (index .root.Values.experts .name).price }}{{ $components := list }}
{{- with $price.perSecond }}{{ $components = append $components (dict "dimension" "second" "unitPrice" .) }}{{ end }}
{{- with $price.perMillionTokens }}
{{- $components = append $components (dict "dimension" "input_fresh" "unitPrice" .input "per" "1000000") }}
{{- $components = append $components (dict "dimension" "output_text" "unitPrice" .output "per" "1000000") }}
{{- end }}
{{- dict "sku" (include "podium.expertSku" .) "currencyCode" "USD" "components" $components "source" (printf "experts.%s.price of the chart" .name) | toJson -}}
{{- end }}

{{- define "podium.validateExperts" -}}
{{- $values := .Values }}
{{- range $name, $own := .Values.experts }}
{{- $of := dict "root" $ "name" $name }}{{ $expert := include "podium.expert" $of | fromJson }}
{{- if not $values.integrations.kserve.enabled }}
{{- fail (printf "experts.%s needs KServe: set integrations.kserve.enabled: true" $name) }}
{{- end }}
{{- if not (and $values.bootstrap.enabled $values.bootstrap.tenant.enabled) }}
{{- fail (printf "experts.%s would be no tool: the Job of bootstrap registers it; set bootstrap.enabled and bootstrap.tenant.enabled: true" $name) }}
{{- end }}
{{- if and (eq $expert.scaleToZero "keda") (not $values.integrations.keda.enabled) }}
{{- fail (printf "experts.%s.scaleToZero is keda, which is off: set integrations.keda.enabled: true" $name) }}
{{- end }}
{{- if and (eq $expert.scaleToZero "knative") (not $values.integrations.kserve.knative) }}
{{- fail (printf "experts.%s.scaleToZero is knative, whose pods are not named: set integrations.kserve.knative" $name) }}
{{- end }}
{{- if and (gt (int $expert.maxReplicas) 1) (not $expert.scaleToZero) }}
{{- fail (printf "experts.%s.maxReplicas is above 1, and nothing scales it: set experts.%s.scaleToZero" $name $name) }}
{{- end }}
{{- if gt (len (printf "%s-predictor" (include "podium.expertName" $of))) 63 }}
{{- fail (printf "experts.%s has too long a name for KServe's Service %s-predictor: shorten it, or fullnameOverride" $name (include "podium.expertName" $of)) }}
{{- end }}
{{- end }}
{{- end }}
