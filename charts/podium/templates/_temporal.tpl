{{/* Mutual TLS with Temporal's frontend. Arguments of all: root, name, component. */}}

{{- define "podium.temporalEnvironment" -}}
{{- $prefix := printf "%sTEMPORAL__" .component.settingsPrefix }}{{ $tls := .root.Values.endpoints.temporal.tls }}
{{- if $tls.enabled }}
- {name: {{ $prefix }}TLS, value: "true"}
- {name: {{ $prefix }}AUTHORITY, value: /etc/podium/temporal/ca.crt}
- {name: {{ $prefix }}CERTIFICATE, value: /etc/podium/temporal/tls.crt}
- {name: {{ $prefix }}PRIVATE_KEY, value: /etc/podium/temporal/tls.key}
{{- with $tls.serverName }}
- {name: {{ $prefix }}SERVER_NAME, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "podium.temporalMounts" -}}
{{- if and (has "temporal" .component.calls) .root.Values.endpoints.temporal.tls.enabled }}
- {name: temporal, mountPath: /etc/podium/temporal, readOnly: true}
{{- end }}
{{- end }}

{{- define "podium.temporalVolumes" -}}
{{- if and (has "temporal" .component.calls) .root.Values.endpoints.temporal.tls.enabled }}
- name: temporal
  secret: {secretName: {{ .root.Values.endpoints.temporal.tls.secretName }}, defaultMode: 0440}
{{- end }}
{{- end }}
