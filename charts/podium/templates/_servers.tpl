{{/* PostgreSQL, Temporal and a broker as pods of the release: for evaluation alone. */}}

{{/* The three, as JSON: what runs in each, on which port, and what is kept. Argument: root. */}}
{{- define "podium.servers" -}}
{{- $kafka := printf "%s:9092" (include "podium.name" (dict "root" . "name" "kafka")) }}
{{- $servers := dict
  "postgres" (dict "port" 5432 "args" (list "postgres" "5432" "/data" "/etc/podium/postgres/password") "keeps" true)
  "temporal" (dict "port" 7233 "args" (list "temporal" "7233" "/data") "keeps" true)
  "kafka" (dict "port" 9092 "args" (list "kafka" "9092" $kafka) "keeps" false)
}}
{{- ternary $servers dict .Values.servers.enabled | toJson -}}
{{- end }}

{{/* PostgreSQL waits on SIGTERM for every client to leave; SIGINT is its quick stop. */}}
{{- define "podium.serverCommand" -}}
{{- $rewrite := ternary (list "--rewrite" "15:2") list (eq .name "postgres") }}
{{- concat (list "dumb-init") $rewrite (list "--" "python" "-m" "podium_kit.embedded.serving") | toJson -}}
{{- end }}

{{/* Metadata of what makes the password. Arguments: of (root, name), weight. */}}
{{- define "podium.passwordHook" -}}
labels: {{- include "podium.labels" .of | nindent 2 }}
annotations:
  helm.sh/hook: pre-install,pre-upgrade
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
