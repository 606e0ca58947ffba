{{/* What a profile means to a pod, as JSON. Empty values of .Values.accelerator take the profile's. */}}
{{- define "podium.accelerator" -}}
{{- $profiles := dict
  "nvidia" (dict "resourceName" "nvidia.com/gpu" "nodeSelector" (dict "nvidia.com/gpu.present" "true") "tolerations" (list (dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule")))
  "amd" (dict "resourceName" "amd.com/gpu" "nodeSelector" (dict "feature.node.kubernetes.io/amd-gpu" "true") "tolerations" (list (dict "key" "amd.com/gpu" "operator" "Exists" "effect" "NoSchedule")))
  "none" (dict "resourceName" "" "nodeSelector" dict "tolerations" list)
}}
{{- $profile := index $profiles .Values.accelerator.profile }}
{{- range $key := list "resourceName" "runtimeClassName" "nodeSelector" "tolerations" }}
{{- with index $.Values.accelerator $key }}{{ $_ := set $profile $key . }}{{ end }}
{{- end }}
{{- toJson $profile -}}
{{- end }}

{{/* Resources with accelerators in them. Arguments: root, resources, count. */}}
{{- define "podium.acceleratedResources" -}}
{{- $resources := deepCopy .resources }}
{{- with ternary (include "podium.accelerator" .root | fromJson).resourceName "" (gt (int .count) 0) }}
{{- $_ := set $resources "requests" (merge (dict . ($.count | toString)) ($resources.requests | default dict)) }}
{{- $_ := set $resources "limits" (merge (dict . ($.count | toString)) ($resources.limits | default dict)) }}
{{- end }}
{{- toYaml $resources -}}
{{- end }}

{{/* The GPU's device hook writes to the root file system; without a GPU it is read-only. */}}
{{- define "podium.acceleratedSecurity" -}}
{{- include "podium.containerSecurity" (dict "readOnly" (eq .Values.accelerator.profile "none")) -}}
{{- end }}
