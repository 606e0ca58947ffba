{{/* Pod template of a training run, for the TrainingRuntime and, without the Trainer, for a Job. Arguments: root, container. */}}
{{- define "podium.trainingPod" -}}
{{- $root := .root }}{{ $training := .root.Values.training }}
{{- $of := dict "root" .root "name" "training" }}{{ $client := merge (dict "component" $training) $of }}
metadata:
  labels: {{- include "podium.labels" $of | nindent 4 }}
spec:
  serviceAccountName: {{ include "podium.name" $of }}
  {{- include "podium.podSecurity" $root | nindent 2 }}
  {{- include "podium.placement" (dict "from" (include "podium.accelerator" $root | fromJson)) | nindent 2 }}
  restartPolicy: Never
  terminationGracePeriodSeconds: 120
  containers:
    - name: {{ .container }}
      image: {{ include "podium.image" (dict "root" $root "image" $training.image) }}
      imagePullPolicy: {{ $training.image.pullPolicy }}
      command: {{ toJson $training.command }}
      args: {{ toJson $training.args }}
      env:
        - {name: HOME, value: /tmp}
        - {name: USER, value: podium}
      resources: {{- include "podium.acceleratedResources" (dict "root" $root "resources" $training.resources "count" $training.acceleratorsPerNode) | nindent 8 }}
      securityContext: {{- include "podium.acceleratedSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
        - {name: config, mountPath: /etc/podium/training, readOnly: true}
        - {name: checkpoints, mountPath: /checkpoints}
        {{- include "podium.kafkaMounts" $client | nindent 8 }}
        {{- if $root.Values.inference.adapters.enabled }}
        - {name: adapters, mountPath: /mnt/adapters}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 20Gi}}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $root.Values.inference.engine.sharedMemory }}}}
    - {name: config, configMap: {name: {{ include "podium.name" $of }}, items: [{key: config.yaml, path: config.yaml}]}}
    - {name: checkpoints, persistentVolumeClaim: {claimName: {{ $training.checkpointsClaim }}}}
    {{- include "podium.kafkaVolumes" $client | nindent 4 }}
    {{- if $root.Values.inference.adapters.enabled }}
    - {name: adapters, persistentVolumeClaim: {claimName: {{ $root.Values.inference.adapters.claimName }}}}
    {{- end }}
{{- end }}

{{/* One run, as `kubectl create -f` takes it. Argument: root. */}}
{{- define "podium.trainingRun" -}}
{{- $training := .Values.training }}{{ $of := dict "root" . "name" "training" -}}
{{- $trainer := .Values.integrations.trainer.enabled -}}
apiVersion: {{ ternary "trainer.kubeflow.org/v1alpha1" "batch/v1" $trainer }}
kind: {{ ternary "TrainJob" "Job" $trainer }}
metadata:
  generateName: {{ include "podium.name" $of }}-
  namespace: {{ .Release.Namespace }}
  labels:
    {{- if .Values.integrations.kueue.enabled }}
    kueue.x-k8s.io/queue-name: {{ $training.queue.name }}
    {{- end }}
    {{- include "podium.labels" $of | nindent 4 }}
spec:
  suspend: {{ and (not $trainer) .Values.integrations.kueue.enabled }}
  {{- if $trainer }}
  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: {{ include "podium.name" $of }}}
  trainer:
    numNodes: {{ $training.nodes }}
    resourcesPerNode: {{- include "podium.acceleratedResources" (dict "root" . "resources" $training.resources "count" $training.acceleratorsPerNode) | nindent 6 }}
  {{- else }}
  backoffLimit: 0
  template: {{- include "podium.trainingPod" (dict "root" . "container" "node") | nindent 4 }}
  {{- end }}
{{- end }}
