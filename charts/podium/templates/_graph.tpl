{{/* The service graph: components.<name>.calls, training.calls, the controller and what bootstrap makes. Everything here is JSON for fromJson. */}}

{{/* Caller to callees, the whole table. Argument: root. */}}
{{- define "podium.graph" -}}
{{- $graph := dict }}
{{- range $name, $component := include "podium.components" $ | fromJson }}{{ $_ := set $graph $name $component.calls }}{{ end }}
{{- if ne .Values.inference.mode "external" }}{{ $_ := set $graph "model-server" (ternary (list "internet") list (regexMatch "^(pvc|image)://" .Values.inference.modelUri | not)) }}{{ end }}
{{- if hasKey $graph "policy-engines" }}{{ $_ := set $graph "policy-engine" list }}{{ end }}
{{- if .Values.experts }}
{{- $_ := set $graph "tool-adapters" (append (index $graph "tool-adapters") "expert") }}
{{- $downloads := list }}{{ range $name, $expert := .Values.experts }}{{ if not (regexMatch "^(pvc|image)://" $expert.model) }}{{ $downloads = list "internet" }}{{ end }}{{ end }}
{{- $_ := set $graph "expert" $downloads }}
{{- end }}
{{- if .Values.training.enabled }}{{ $_ := set $graph "training" (ternary (append .Values.training.calls "internet" | uniq) .Values.training.calls (hasPrefix "hf://" .Values.training.model)) }}{{ end }}
{{- if .Values.controller.enabled }}{{ $_ := set $graph "controller" (list "gateway" "kubernetes") }}{{ end }}
{{- with include "podium.bootstrapCalls" . | fromJsonArray }}{{ $_ := set $graph "bootstrap" . }}{{ end }}
{{- range $name, $_ := include "podium.servers" . | fromJson }}{{ $_ := set $graph $name list }}{{ end }}
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

{{/* SPIFFE id of a component's certificate. Arguments: root, name. */}}
{{- define "podium.spiffeId" -}}
spiffe://{{ .root.Values.tls.trustDomain }}/ns/{{ .root.Release.Namespace }}/sa/{{ include "podium.name" . }}
{{- end }}

{{/* The DNS names of a component's certificate, as JSON. Arguments: root, name. */}}
{{- define "podium.certificateNames" -}}
{{- $host := include "podium.name" . }}
{{- $names := list $host (printf "%s.%s.svc" $host .root.Release.Namespace) (include "podium.host" .) }}
{{- /* People reach the gateway by a forwarded port. */}}
{{- ternary (append $names "localhost") $names (eq .name "gateway") | toJson -}}
{{- end }}

{{/* Where the gateway is, inside of the cluster. Argument: root. */}}
{{- define "podium.gatewayUrl" -}}
{{ ternary "https" "http" .Values.tls.enabled }}://{{ include "podium.host" (dict "root" . "name" "gateway") }}:{{ .Values.components.gateway.port }}
{{- end }}

{{/* What clients of the gateway verify it by: the certificate of its authority, without its key. Argument: root. */}}
{{- define "podium.gatewayAuthorityFile" -}}/etc/podium/gateway/ca.crt{{- end }}

{{- define "podium.gatewayAuthorityMount" -}}
{{- if .Values.tls.enabled }}
- {name: gateway-authority, mountPath: {{ include "podium.gatewayAuthorityFile" . | dir }}, readOnly: true}
{{- end }}
{{- end }}

{{/* Arguments: root, optional: whether the pod starts before the Secret is there. */}}
{{- define "podium.gatewayAuthorityVolume" -}}
{{- if .root.Values.tls.enabled }}
- name: gateway-authority
  secret:
    secretName: {{ include "podium.name" (dict "root" .root "name" "gateway") }}-tls
    items: [{key: ca.crt, path: ca.crt}]
    defaultMode: 0440
    {{- if .optional }}
    optional: true
    {{- end }}
{{- end }}
{{- end }}

{{/* Whom `name` serves: its callers, by either name that their certificates carry. Arguments: root, name. */}}
{{- define "podium.allowedClients" -}}
{{- $names := list }}
{{- range $caller := (include "podium.callers" . | fromJson).names }}
{{- $of := dict "root" $.root "name" $caller }}
{{- $names = concat $names (list (include "podium.spiffeId" $of) (include "podium.host" $of)) }}
{{- end }}
{{- dict "names" $names | toJson -}}
{{- end }}

{{/* Port others call. Arguments: root, name. */}}
{{- define "podium.port" -}}
{{- $server := index (include "podium.servers" .root | fromJson) .name }}
{{- if has .name (list "model-server" "policy-engine") -}}{{ include "podium.enginePort" .root }}
{{- else if eq .name "expert" -}}8080
{{- else if $server -}}{{ $server.port }}
{{- else -}}{{ with index .root.Values.components .name }}{{ with .port }}{{ . }}{{ end }}{{ end }}
{{- end -}}
{{- end }}

{{/* Egress rule of one edge. Arguments: root, callee. */}}
{{- define "podium.egress" -}}
{{- $endpoints := .root.Values.endpoints -}}
{{- if eq .callee "internet" }}
{{- $except := dict "4" list "6" list }}
{{- range $cidr := $endpoints.internet.except }}{{ $family := ternary "6" "4" (contains ":" $cidr) }}{{ $_ := set $except $family (append (index $except $family) $cidr) }}{{ end }}
- to: [{ipBlock: {cidr: 0.0.0.0/0, except: {{ index $except "4" | toJson }}}}, {ipBlock: {cidr: "::/0", except: {{ index $except "6" | toJson }}}}]
  ports: [{{- range $i, $port := $endpoints.internet.ports }}{{ if $i }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{- end }}]
{{- else if eq .callee "kubernetes" }}
{{ include "podium.egressTo" $endpoints.kubernetes }}
{{- else if has .callee (list "postgres" "temporal" "kafka") }}
{{- $peers := (index $endpoints .callee).peers }}
{{- $ports := list }}
{{- if eq .callee "postgres" }}{{ $ports = list $endpoints.postgres.port }}{{ end }}
{{- if eq .callee "temporal" }}{{ $ports = list (splitList ":" $endpoints.temporal.target | last) }}{{ end }}
{{- if eq .callee "kafka" }}{{ range $server := splitList "," $endpoints.kafka.bootstrap }}{{ $ports = append $ports (splitList ":" $server | last) }}{{ end }}{{ end }}
{{ include "podium.egressTo" (dict "peers" $peers "ports" ($ports | uniq)) }}
{{- else }}
{{- $elsewhere := and (eq .callee "model-server") (include "podium.engineIsElsewhere" .root) }}
{{- if $elsewhere }}
{{ include "podium.egressTo" (dict "peers" (include "podium.enginePeers" .root | fromJsonArray) "ports" (list (include "podium.urlPort" (include "podium.engineUrl" .root)))) }}
{{- end }}
{{- if and (eq .callee "expert") (include "podium.expertsOf" (dict "root" .root "scaler" "knative") | fromJsonArray) }}
# A Service of Knative's is one of its ingress, whose pods have ports of their own.
- to: {{ toJson .root.Values.integrations.kserve.knative }}
{{- end }}
{{- if not (and $elsewhere (eq .root.Values.inference.mode "external")) }}
- to: [{podSelector: {matchLabels: {{ include "podium.selector" (dict "root" .root "name" .callee) | fromYaml | toJson }}}}]
  ports: [{protocol: TCP, port: {{ include "podium.port" (dict "root" .root "name" .callee) }}}]
{{- end }}
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
  ports: [{{- range $i, $port := .Values.networkPolicy.dnsPorts }}{{ if $i }}, {{ end }}{protocol: UDP, port: {{ $port }}}, {protocol: TCP, port: {{ $port }}}{{- end }}]
{{- end }}

{{/* Who may come in: callers, helm test, the scraper. Arguments: root, name, extra (more rules). */}}
{{- define "podium.ingress" -}}
{{- $values := .root.Values }}{{ $name := .name }}{{ $port := include "podium.port" . }}
{{- with (include "podium.callers" . | fromJson).names }}
- from:
    {{- range $caller := . }}
    - podSelector: {matchLabels: {{ include "podium.selector" (dict "root" $.root "name" $caller) | fromYaml | toJson }}}
    {{- end }}
  ports: [{protocol: TCP, port: {{ $port }}}]
{{- end }}
{{- if eq $name "gateway" }}
{{- $client := dict "matchLabels" (dict "podium.dev/client" "true") }}
{{- $clients := list (dict "podSelector" $client) }}
{{- with $values.networkPolicy.clientNamespaces }}
{{- $in := dict "matchExpressions" (list (dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" .)) }}
{{- $clients = append $clients (dict "namespaceSelector" $in "podSelector" $client) }}
{{- end }}
- from: {{ toJson $clients }}
  ports: [{protocol: TCP, port: {{ $port }}}]
{{- end }}
{{- if and (eq $name "gateway") $values.ingress.from }}
- from: {{ toJson $values.ingress.from }}
  ports: [{protocol: TCP, port: {{ $port }}}]
{{- end }}
{{- if and $port (hasKey $values.components $name) }}
- from: [{podSelector: {matchLabels: {{ include "podium.selector" (dict "root" .root "name" "test") | fromYaml | toJson }}}}]
  ports: [{protocol: TCP, port: {{ eq $name "gateway" | ternary $port (include "podium.healthPort" .) }}}]
{{- end }}
{{- if not (has $name (list "bootstrap" "controller")) }}{{ with $values.monitoring.from }}
- from: {{ toJson . }}
  ports: [{protocol: TCP, port: {{ has $name (list "model-server" "policy-engine" "expert") | ternary $port $values.monitoring.metricsPort }}}]
{{- end }}{{ end }}
{{- $experts := include "podium.expertsOf" (dict "root" .root "scaler" "keda") | fromJsonArray }}
{{- if and (or (eq $name "episodes") (and (eq $name "tool-adapters") $experts)) $values.integrations.keda.enabled $values.integrations.keda.from }}
# KEDA reads how much work is open, and how many calls experts have.
- from: {{ toJson $values.integrations.keda.from }}
  ports: [{protocol: TCP, port: {{ $values.monitoring.metricsPort }}}]
{{- end }}
{{- if and (eq $name "temporal") $values.integrations.temporalWorkerController.enabled }}
- from: {{ toJson $values.integrations.temporalWorkerController.from }}
  ports: [{protocol: TCP, port: {{ $port }}}]
{{- end }}
{{- if and (eq $name "expert") (include "podium.expertsOf" (dict "root" .root "scaler" "knative") | fromJsonArray) }}
# Knative's activator and autoscaler ask the proxy beside the engine.
- from: {{ toJson $values.integrations.kserve.knative }}
{{- end }}
{{- if and (eq $name "model-server") (include "podium.engineIsElsewhere" .root) }}
# The gateway that routes to the replicas, and KServe's scheduler, which asks each for its load.
- from: {{ append (include "podium.enginePeers" .root | fromJsonArray) (dict "podSelector" (dict "matchLabels" (dict "app.kubernetes.io/part-of" "llminferenceservice"))) | toJson }}
  ports: [{protocol: TCP, port: {{ $port }}}]
{{- end }}
{{- if eq $name "training" }}
- from: [{podSelector: {matchLabels: {{ include "podium.selector" . | fromYaml | toJson }}}}]
{{- end }}
{{- with .extra }}
{{ toYaml . }}
{{- end }}
{{- end }}
