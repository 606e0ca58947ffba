{{/* Triggers of KEDA for a component. Open work is the only trigger beside the processor: KEDA makes no autoscaler at all
     where one of several triggers cannot be read. Arguments: root, component. */}}
{{- define "podium.triggers" -}}
{{- with .component.autoscaling.openWork }}
# Most episodes and all direct calls are on no queue of Temporal's: the episodes server counts them.
- type: metrics-api
  metadata:
    url: http://{{ include "podium.host" (dict "root" $.root "name" "episodes") }}:{{ $.root.Values.monitoring.metricsPort }}{{ include "podium.metricsPath" $.root }}
    format: prometheus
    valueLocation: podium_episodes_work_open
    targetValue: {{ . | toString | quote }}
{{- else }}
- type: cpu
  metricType: Utilization
  metadata: {value: {{ .component.autoscaling.cpuUtilization | toString | quote }}}
{{- end }}
{{- end }}

{{/* Spec of a ScaledObject or, without KEDA, of a HorizontalPodAutoscaler. Arguments: as above, and target (empty where the worker controller names it). */}}
{{- define "podium.scaledObjectSpec" -}}
scaleTargetRef: {{ .target | default dict | toJson }}
pollingInterval: 15
cooldownPeriod: 300
minReplicaCount: {{ .component.autoscaling.minReplicas }}
maxReplicaCount: {{ .component.autoscaling.maxReplicas }}
{{- if .component.autoscaling.openWork }}
fallback: {failureThreshold: 3, replicas: {{ .component.autoscaling.minReplicas }}, behavior: currentReplicasIfHigher}
{{- end }}
triggers: {{- include "podium.triggers" . | trim | nindent 2 }}
{{- end }}

{{- define "podium.horizontalPodAutoscalerSpec" -}}
scaleTargetRef: {{ .target | default dict | toJson }}
minReplicas: {{ .component.autoscaling.minReplicas }}
maxReplicas: {{ .component.autoscaling.maxReplicas }}
metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ .component.autoscaling.cpuUtilization }}}}
behavior:
  scaleDown: {stabilizationWindowSeconds: 300}
{{- end }}
