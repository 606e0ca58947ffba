{{/* A component is its own values over componentDefaults. Read it as:
     {{- $c := include "podium.component" (dict "root" $ "name" $name) | fromYaml }} */}}
{{- define "podium.component" -}}
{{- $own := index (include "podium.components" .root | fromJson) .name }}
{{- mergeOverwrite (deepCopy .root.Values.componentDefaults) $own | toYaml -}}
{{- end }}

{{/* The components that are on, as JSON; no component calls one that is off. Argument: root. */}}
{{- define "podium.components" -}}
{{- $off := list }}
{{- range $name, $component := .Values.components }}
{{- if eq (toString $component.enabled) "false" }}{{ $off = append $off $name }}{{ end }}
{{- end }}
{{- if not (include "podium.enginesAreMade" .) }}{{ $off = append $off "policy-engines" }}{{ end }}
{{- if has "policy-engines" $off }}{{ $off = append $off "policy-engine" }}{{ end }}
{{- $on := dict }}
{{- range $name, $component := .Values.components }}
{{- if not (has $name $off) }}
{{- $calls := list }}
{{- range $callee := $component.calls }}{{ if not (has $callee $off) }}{{ $calls = append $calls $callee }}{{ end }}{{ end }}
{{- $_ := set $on $name (merge (dict "calls" $calls) (omit $component "calls")) }}
{{- end }}
{{- end }}
{{- toJson $on -}}
{{- end }}

{{/* Whether engines of policy versions can be made: by KServe, from its model server, with a claim of versions. */}}
{{- define "podium.enginesAreMade" -}}
{{- if and (has (include "podium.engineKind" .) (list "inferenceService" "llmInferenceService")) .Values.inference.adapters.enabled -}}true{{- end -}}
{{- end }}

{{/* Whether the worker controller runs this component: one that polls the episodes' queue and serves no port. Runs of
     rollouts may change their worker: their progress is stored by the platform. */}}
{{- define "podium.isVersionedWorker" -}}
{{- if and .root.Values.integrations.temporalWorkerController.enabled (eq .component.protocol "none") (has "temporal" .component.calls) (not .component.taskQueue) -}}true{{- end -}}
{{- end }}

{{/* Where probes and metrics are, beside the port itself. */}}
{{- define "podium.healthPort" -}}8086{{- end }}

{{- define "podium.metricsPath" -}}/metrics{{- end }}
