{{/* The model server: which one, where it is, what its pods are made of. */}}

{{/* inferenceService, llmInferenceService, deployment or external. */}}
{{- define "podium.engineKind" -}}
{{- if eq .Values.inference.mode "external" -}}external
{{- else if .Values.integrations.kserve.enabled -}}{{ .Values.inference.mode }}
{{- else -}}deployment
{{- end -}}
{{- end }}

{{/* Not empty when the engine is reached at a URL of the user's. */}}
{{- define "podium.engineIsElsewhere" -}}
{{- if has (include "podium.engineKind" .) (list "external" "llmInferenceService") -}}true{{- end -}}
{{- end }}

{{/* KServe's own arguments for an LLMInferenceService say 8000. */}}
{{- define "podium.enginePort" -}}
{{- ternary 8000 8080 (eq (include "podium.engineKind" .) "llmInferenceService") -}}
{{- end }}

{{- define "podium.enginePeers" -}}
{{- if eq .Values.inference.mode "external" -}}
{{ toJson .Values.inference.external.peers }}
{{- else -}}
{{ list (dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" .Values.inference.llmInferenceService.gatewayRef.namespace))) | toJson }}
{{- end -}}
{{- end }}

{{- define "podium.engineUrl" -}}
{{- $kind := include "podium.engineKind" . }}
{{- if eq $kind "external" -}}{{ .Values.inference.external.baseUrl }}
{{- else if eq $kind "llmInferenceService" -}}{{ .Values.inference.llmInferenceService.baseUrl }}
{{- else -}}http://{{ include "podium.host" (dict "root" . "name" "model-server") }}:8080/v1
{{- end -}}
{{- end }}

{{/* Name the model is served under: KServe's arguments know it as the object's own name. */}}
{{- define "podium.modelName" -}}
{{ include "podium.name" (dict "root" . "name" "orchestrator") }}
{{- end }}

{{- define "podium.engineModel" -}}
{{- if eq .Values.inference.mode "external" -}}{{ .Values.inference.external.model }}{{- else -}}{{ include "podium.modelName" . }}{{- end -}}
{{- end }}

{{/* Pods as long as nothing scales them: the accelerators of maxReplicas may not be there. */}}
{{- define "podium.engineScales" -}}
{{- if and .Values.integrations.keda.enabled .Values.inference.scaling.prometheusUrl (gt (int .Values.inference.maxReplicas) (int .Values.inference.minReplicas)) -}}true{{- end -}}
{{- end }}

{{- define "podium.waitingRequestsQuery" -}}
sum(vllm:num_requests_waiting{namespace="{{ .Release.Namespace }}", model_name="{{ include "podium.modelName" . }}"})
{{- end }}

{{/* Folder of the weights in a container of KServe's: it mounts those that the image does not hold. Argument: the URI. */}}
{{- define "podium.mountedWeights" -}}
{{- if hasPrefix "image://" . -}}/{{ trimPrefix "image://" . }}{{- else -}}/mnt/models{{- end -}}
{{- end }}

{{/* vLLM as orchestrator-inference needs it (its README says why each). Arguments: root, model, name. */}}
{{- define "podium.engineArguments" -}}
- {{ .model | quote }}
- --port=8080
- {{ printf "--served-model-name=%s" .name | quote }}
{{- include "podium.engineOptions" .root }}
{{- end }}

{{/* One that Podium builds comes from its registry with its version. Arguments: root, image. */}}
{{- define "podium.engineImage" -}}
{{- if or .image.tag .image.digest -}}{{ include "podium.publicImage" .image }}{{- else -}}{{ include "podium.image" . }}{{- end -}}
{{- end }}

{{/* The arguments that hold under every mode. Argument: root. */}}
{{- define "podium.engineOptions" }}
- --logprobs-mode=processed_logprobs
- '--structured-outputs-config={"backend": "xgrammar", "disable_any_whitespace": true}'
- --enable-prompt-tokens-details
- --enable-tokenizer-info-endpoint
{{- if .Values.dualStack }}
- '--host=::'
{{- end }}
{{- if gt (int .Values.inference.acceleratorsPerReplica) 1 }}
- --tensor-parallel-size={{ .Values.inference.acceleratorsPerReplica }}
{{- end }}
{{- with .Values.inference.adapters }}
{{- if .enabled }}
- --enable-lora
- --max-loras={{ .maxLoras }}
- --max-cpu-loras={{ .maxCpuLoras }}
- --max-lora-rank={{ .maxRank }}
{{- end }}
{{- end }}
{{- range .Values.inference.engine.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* A uid without an account has no home; vLLM and torch keep their caches under /tmp instead. */}}
{{- define "podium.engineHome" -}}
- {name: HOME, value: /tmp}
- {name: USER, value: podium}
- {name: VLLM_NO_USAGE_STATS, value: "1"}
{{- include "podium.hubToken" . }}
{{- end }}

{{- define "podium.engineEnvironment" -}}
{{ include "podium.engineHome" . }}
{{- if .Values.inference.adapters.enabled }}
- {name: VLLM_ALLOW_RUNTIME_LORA_UPDATING, value: "true"}
{{- end }}
{{- with .Values.inference.apiKey }}
{{ include "podium.secretVariable" (dict "root" $ "owner" "inference" "purpose" "api-key" "reference" . "variable" "VLLM_API_KEY") }}
{{- end }}
{{- range $name, $value := .Values.inference.engine.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* What the hub asks for before it hands out a gated model. Argument: root. */}}
{{- define "podium.hubToken" -}}
{{- with .Values.inference.hubToken }}
{{ include "podium.secretVariable" (dict "root" $ "owner" "inference" "purpose" "hub-token" "reference" . "variable" "HF_TOKEN") }}
{{- end }}
{{- end }}

{{/* With an API key /v1/models wants it, and a probe has none. */}}
{{- define "podium.engineProbes" -}}
readinessProbe: {httpGet: {path: {{ ternary "/health" "/v1/models" (not (empty .Values.inference.apiKey)) }}, port: 8080, scheme: HTTP}, periodSeconds: 10, failureThreshold: 3, timeoutSeconds: 5}
{{ include "podium.engineLife" . }}
{{- end }}

{{/* What a server of Knative's may not have. */}}
{{- define "podium.engineLife" -}}
startupProbe: {httpGet: {path: /health, port: 8080, scheme: HTTP}, periodSeconds: 2, failureThreshold: 600, timeoutSeconds: 5}
livenessProbe: {httpGet: {path: /health, port: 8080, scheme: HTTP}, periodSeconds: 10, failureThreshold: 6, timeoutSeconds: 5}
lifecycle: {preStop: {sleep: {seconds: 15}}}
{{- end }}

{{/* orchestrator-inference brings the versions of the claim to every replica, by the names of the headless Service. */}}
{{- define "podium.servesVersions" -}}
{{- if and .Values.inference.adapters.enabled (ne .Values.inference.mode "external") -}}true{{- end -}}
{{- end }}

{{- define "podium.versionEnvironment" -}}
{{- if include "podium.servesVersions" .root }}
- {name: {{ .prefix }}POLICY_STORE, value: /mnt/adapters}
- {name: {{ .prefix }}ENGINE_REPLICAS_URL, value: "http://{{ include "podium.host" (dict "root" .root "name" "model-server-replicas") }}:{{ include "podium.enginePort" .root }}/v1"}
- {name: {{ .prefix }}VERSIONS_KEPT, value: {{ sub (int .root.Values.inference.adapters.maxCpuLoras) 4 | max 1 | toString | quote }}}
{{- end }}
{{- end }}

{{- define "podium.engineMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: shm, mountPath: /dev/shm}
{{- if .Values.inference.adapters.enabled }}
- {name: adapters, mountPath: /mnt/adapters, readOnly: true}
{{- end }}
{{- end }}

{{- define "podium.engineVolumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 20Gi}}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ .Values.inference.engine.sharedMemory }}}}
{{- if .Values.inference.adapters.enabled }}
- {name: adapters, persistentVolumeClaim: {claimName: {{ .Values.inference.adapters.claimName }}, readOnly: true}}
{{- end }}
{{- end }}
