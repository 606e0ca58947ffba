{{/* How a pod proves to Kafka who it is, with the Secrets of a Strimzi KafkaUser. Arguments of all: root, name, component. */}}

{{- define "podium.kafkaEnvironment" -}}
{{- $prefix := printf "%sKAFKA__" .component.settingsPrefix }}{{ $kafka := .root.Values.endpoints.kafka }}
- {name: {{ $prefix }}BOOTSTRAP, value: {{ $kafka.bootstrap | quote }}}
- {name: {{ $prefix }}SECURITY_PROTOCOL, value: {{ $kafka.securityProtocol }}}
{{- if ne $kafka.securityProtocol "PLAINTEXT" }}
- {name: {{ $prefix }}AUTHORITY, value: /etc/podium/kafka/ca.crt}
{{- end }}
{{- if eq $kafka.securityProtocol "SSL" }}
- {name: {{ $prefix }}CERTIFICATE, value: /etc/podium/kafka/user.crt}
- {name: {{ $prefix }}PRIVATE_KEY, value: /etc/podium/kafka/user.key}
{{- else if eq $kafka.securityProtocol "SASL_SSL" }}
- {name: {{ $prefix }}USERNAME, value: {{ include "podium.name" . }}}
- {name: {{ $prefix }}PASSWORD_FILE, value: /etc/podium/kafka/password}
{{- end }}
{{- end }}

{{/* Whether the pod has such a Secret: it calls Kafka, and Kafka asks. */}}
{{- define "podium.hasKafkaSecrets" -}}
{{- if and (has "kafka" .component.calls) (ne .root.Values.endpoints.kafka.securityProtocol "PLAINTEXT") }}yes{{ end }}
{{- end }}

{{- define "podium.kafkaMounts" -}}
{{- if include "podium.hasKafkaSecrets" . }}
- {name: kafka, mountPath: /etc/podium/kafka, readOnly: true}
{{- end }}
{{- end }}

{{/* The ca.crt of a KafkaUser's own Secret signs clients; the cluster's signs the brokers. */}}
{{- define "podium.kafkaVolumes" -}}
{{- if include "podium.hasKafkaSecrets" . }}
{{- $files := ternary (list "password") (list "user.crt" "user.key") (eq .root.Values.endpoints.kafka.securityProtocol "SASL_SSL") }}
- name: kafka
  projected:
    defaultMode: 0440
    sources:
      - secret: {name: {{ .root.Values.kafka.cluster }}-cluster-ca-cert, items: [{key: ca.crt, path: ca.crt}]}
      - secret:
          name: {{ include "podium.name" . }}
          items:
            {{- range $files }}
            - {key: {{ . }}, path: {{ . }}}
            {{- end }}
{{- end }}
{{- end }}
