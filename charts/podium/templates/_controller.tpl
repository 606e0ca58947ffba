{{/* Namespaces whose objects are applied, as JSON: the release's own and those named. Argument: root. */}}
{{- define "podium.controllerNamespaces" -}}
{{- concat (list .Release.Namespace) .Values.controller.namespaces | uniq | sortAlpha | toJson -}}
{{- end }}
