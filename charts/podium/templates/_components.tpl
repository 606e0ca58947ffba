{{/* A component is its own values over componentDefaults. Read it as:
     {{- $c := include "podium.component" (dict "root" $ "name" $name) | fromYaml }} */}}
{{- define "podium.component" -}}
{{- mergeOverwrite (deepCopy .root.Values.componentDefaults) (deepCopy (index .root.Values.components .name)) | toYaml -}}
{{- end }}

{{/* Whether the worker controller runs this component: one that polls Temporal and serves nobody. */}}
{{- define "podium.isVersionedWorker" -}}
{{- if and .root.Values.integrations.temporalWorkerController.enabled (eq .component.protocol "none") (has "temporal" .component.calls) -}}true{{- end -}}
{{- end }}

{{/* Where probes and metrics are, beside the port itself. */}}
{{- define "podium.healthPort" -}}8086{{- end }}

{{- define "podium.metricsPath" -}}/metrics{{- end }}
