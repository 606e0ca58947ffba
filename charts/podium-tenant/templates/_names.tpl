{{/* Everything is named after the tenant, and lies in its namespace. */}}
{{- define "podium-tenant.namespace" -}}
{{- ternary .Values.tenant .Release.Namespace .Values.namespace.create -}}
{{- end }}

{{- define "podium-tenant.labels" -}}
app.kubernetes.io/name: podium-tenant
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: podium
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
podium.dev/tenant: {{ .Values.tenant }}
{{- end }}

{{- define "podium-tenant.namespaceLabels" -}}
pod-security.kubernetes.io/enforce: {{ .Values.namespace.podSecurity }}
pod-security.kubernetes.io/warn: restricted
{{- end }}
