{{/* Names and labels of everything. Selectors are for ever: tests/chart compares them with the last release. */}}

{{- define "podium.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Arguments: root, name. */}}
{{- define "podium.name" -}}
{{ include "podium.fullname" .root }}-{{ .name }}
{{- end }}

{{- define "podium.selector" -}}
app.kubernetes.io/name: podium
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "podium.labels" -}}
{{ include "podium.selector" . }}
app.kubernetes.io/part-of: podium
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Full DNS name of a Service. Arguments: root, name. */}}
{{- define "podium.host" -}}
{{ include "podium.name" . }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end }}

{{/* Reference of an image that Podium builds. Arguments: root, image. */}}
{{- define "podium.image" -}}
{{- with .root.Values.imageRegistry }}{{ . }}/{{ end -}}
{{- include "podium.publicImage" .image | replace ":APPVERSION" (printf ":%s" .root.Chart.AppVersion) -}}
{{- end }}

{{/* Reference of a third-party image. */}}
{{- define "podium.publicImage" -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default "APPVERSION" }}{{- end -}}
{{- end }}
