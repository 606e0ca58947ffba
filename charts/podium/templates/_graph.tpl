{{/* The service graph: components.<name>.calls and training.calls. Everything here is JSON for fromJson. */}}

{{/* Caller to callees, the whole table. Argument: root. */}}
{{- define "podium.graph" -}}
{{- $graph := dict }}
{{- range $name, $component := .Values.components }}{{ $_ := set $graph $name $component.calls }}{{ end }}
{{- if ne .Values.inference.mode "external" }}{{ $_ := set $graph "model-server" (ternary (list "internet") list (hasPrefix "pvc://" .Values.inference.modelUri | not)) }}{{ end }}
{{- if .Values.training.enabled }}{{ $_ := set $graph "training" .Values.training.calls }}{{ end }}
{{- toJson $graph -}}
{{- end }}

{{/* Who calls `name`, sorted. Arguments: root, name. */}}
{{- define "podium.callers" -}}
{{- $callers := list }}
{{- range $caller, $callees := include "podium.graph" .root | fromJson }}
{{- if has $.name $callees }}{{ $callers = append $callers $caller }}{{ end }}
{{- end }}
{{- dict "names" ($callers | sortAlpha) | toJson -}}
{{- end }}

{{/* Port others call. Arguments: root, name. */}}
{{- define "podium.port" -}}
{{- if eq .name "model-server" -}}8080
{{- else -}}{{ with index .root.Values.components .name }}{{ .port }}{{ end }}
{{- end -}}
{{- end }}

{{/* Egress rule of one edge. Arguments: root, callee. */}}
{{- define "podium.egress" -}}
{{- $endpoints := .root.Values.endpoints -}}
{{- if eq .callee "internet" }}
- to: [{ipBlock: {cidr: 0.0.0.0/0, except: {{ toJson $endpoints.internet.except }}}}]
  ports: [{{- range $i, $port := $endpoints.internet.ports }}{{ if $i }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{- end }}]
{{- else if has .callee (list "postgres" "temporal" "kafka") }}
{{- $peers := (index $endpoints .callee).peers }}
{{- $ports := list }}
{{- if eq .callee "postgres" }}{{ $ports = list $endpoints.postgres.port }}{{ end }}
{{- if eq .callee "temporal" }}{{ $ports = list (splitList ":" $endpoints.temporal.target | last) }}{{ end }}
{{- if eq .callee "kafka" }}{{ range $server := splitList "," $endpoints.kafka.bootstrap }}{{ $ports = append $ports (splitList ":" $server | last) }}{{ end }}{{ end }}
{{ include "podium.egressTo" (dict "peers" $peers "ports" ($ports | uniq)) }}
{{- else if and (eq .callee "model-server") (include "podium.engineIsElsewhere" .root) }}
{{ include "podium.egressTo" (dict "peers" (include "podium.enginePeers" .root | fromJsonArray) "ports" (list (include "podium.urlPort" (include "podium.engineUrl" .root)))) }}
{{- else }}
- to: [{podSelector: {matchLabels: {{ include "podium.selector" (dict "root" .root "name" .callee) | fromYaml | toJson }}}}]
  ports: [{protocol: TCP, port: {{ include "podium.port" (dict "root" .root "name" .callee) }}}]
{{- end }}
{{- end }}

{{/* Egress to what is outside of the release. Arguments: peers (none means anywhere), ports. */}}
{{- define "podium.egressTo" -}}
- ports: [{{- range $i, $port := .ports }}{{ if $i }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{- end }}]
  {{- with .peers }}
  to: {{ toJson . }}
  {{- end }}
{{- end }}

{{/* Port of a URL, also of one that names none. */}}
{{- define "podium.urlPort" -}}
{{- $url := urlParse . }}
{{- if contains ":" $url.host -}}{{ splitList ":" $url.host | last }}{{- else -}}{{ ternary "443" "80" (eq $url.scheme "https") }}{{- end -}}
{{- end }}

{{- define "podium.dnsEgress" -}}
- to: {{ toJson .Values.networkPolicy.dns }}
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end }}
