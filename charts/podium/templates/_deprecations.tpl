{{/* deprecated.yaml lists keys that moved. The schema lets them through, so that this can say where to. */}}
{{- define "podium.deprecations" -}}
{{- range $moved := .Files.Get "deprecated.yaml" | fromYamlArray }}
{{- $value := $.Values }}
{{- range $part := splitList "." $moved.key }}{{ if kindIs "map" $value }}{{ $value = index $value $part }}{{ end }}{{ end }}
{{- if not (kindIs "invalid" $value) }}
{{- fail (printf "%s is gone since %s: %s" $moved.key $moved.since $moved.hint) }}
{{- end }}
{{- end }}
{{- end }}
