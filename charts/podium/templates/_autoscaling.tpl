{{/* host:port, comma-separated, as KEDA finds them from its own namespace. Arguments: root, hosts. */}}
{{- define "podium.fromElsewhere" -}}
{{- regexReplaceAll "(^|,)([^.,:]+):" .hosts (printf "${1}${2}.%s.svc.%s:" .root.Release.Namespace .root.Values.clusterDomain) -}}
{{- end }}

{{/* Triggers of KEDA for a component. Arguments: root, component, versioned (the worker controller fills three in). */}}
{{- define "podium.triggers" -}}
{{- $scaling := .component.autoscaling }}{{ $temporal := .root.Values.endpoints.temporal }}
{{- $cpu := true }}
{{- with $scaling.temporalBacklog }}{{ $cpu = false }}
- type: temporal
  metadata:
    endpoint: {{ include "podium.fromElsewhere" (dict "root" $.root "hosts" $temporal.target) | quote }}
    namespace: {{ ternary "" $temporal.namespace (not (empty $.versioned)) | quote }}
    taskQueue: {{ $temporal.taskQueue | quote }}
    queueTypes: workflow,activity
    targetQueueSize: {{ . | toString | quote }}
    enableTLS: {{ $temporal.tls.enabled | toString | quote }}
    {{- with and $temporal.tls.enabled $temporal.tls.serverName }}
    tlsServerName: {{ . | quote }}
    {{- end }}
    {{- if $.versioned }}
    workerDeploymentName: ""
    workerDeploymentBuildId: ""
    {{- end }}
  {{- if $temporal.tls.enabled }}
  authenticationRef: {name: {{ include "podium.name" (dict "root" $.root "name" "temporal-scaler") }}}
  {{- end }}
{{- end }}
{{- with $scaling.openWork }}{{ $cpu = false }}
# Most episodes and all direct calls are on no queue of Temporal's: the episodes server counts them.
- type: metrics-api
  metadata:
    url: http://{{ include "podium.host" (dict "root" $.root "name" "episodes") }}:{{ $.root.Values.monitoring.metricsPort }}{{ include "podium.metricsPath" $.root }}
    format: prometheus
    valueLocation: podium_episodes_work_open
    targetValue: {{ . | toString | quote }}
{{- end }}
{{- with $scaling.kafkaLag }}{{ $cpu = false }}
- type: kafka
  metadata:
    bootstrapServers: {{ include "podium.fromElsewhere" (dict "root" $.root "hosts" $.root.Values.endpoints.kafka.bootstrap) | quote }}
    topic: {{ $.root.Values.kafka.trajectories.topic | quote }}
    consumerGroup: {{ .consumerGroup | quote }}
    lagThreshold: {{ .lagThreshold | toString | quote }}
    activationLagThreshold: "1"
    # A group without offsets counts as lagging from the start, or nothing would ever start it.
    offsetResetPolicy: earliest
{{- end }}
{{- if $cpu }}
- type: cpu
  metricType: Utilization
  metadata: {value: {{ $scaling.cpuUtilization | toString | quote }}}
{{- end }}
{{- end }}

{{/* No more consumers of a topic than it has partitions: the rest would idle. */}}
{{- define "podium.maxReplicas" -}}
{{- if .component.autoscaling.kafkaLag -}}
{{ min .component.autoscaling.maxReplicas .root.Values.kafka.trajectories.partitions }}
{{- else -}}
{{ .component.autoscaling.maxReplicas }}
{{- end -}}
{{- end }}

{{/* Spec of a ScaledObject or, without KEDA, of a HorizontalPodAutoscaler. Arguments: as above, and target. */}}
{{- define "podium.scaledObjectSpec" -}}
scaleTargetRef: {{ .target | default dict | toJson }}
pollingInterval: 15
cooldownPeriod: 300
minReplicaCount: {{ .component.autoscaling.minReplicas }}
maxReplicaCount: {{ include "podium.maxReplicas" . }}
{{- if or .component.autoscaling.temporalBacklog .component.autoscaling.openWork .component.autoscaling.kafkaLag }}
fallback: {failureThreshold: 3, replicas: {{ .component.autoscaling.minReplicas }}, behavior: currentReplicasIfHigher}
{{- end }}
triggers: {{- include "podium.triggers" . | trim | nindent 2 }}
{{- end }}

{{- define "podium.horizontalPodAutoscalerSpec" -}}
scaleTargetRef: {{ .target | default dict | toJson }}
minReplicas: {{ .component.autoscaling.minReplicas }}
maxReplicas: {{ include "podium.maxReplicas" . }}
metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ .component.autoscaling.cpuUtilization }}}}
behavior:
  scaleDown: {stabilizationWindowSeconds: 300}
{{- end }}
