{{/* Training: what one run is made of. */}}

{{/* Processes in each pod. */}}
{{- define "podium.trainingProcesses" -}}
{{- $accelerated := (include "podium.accelerator" . | fromJson).resourceName | empty | not }}
{{- .Values.training.processesPerNode | default (ternary .Values.training.acceleratorsPerNode 1 $accelerated) | int -}}
{{- end }}

{{/* Folder of the base model in the pod. */}}
{{- define "podium.trainingModel" -}}
{{- $model := .Values.training.model }}
{{- if hasPrefix "image://" $model -}}{{ trimPrefix "image://" $model }}
{{- else if hasPrefix "hf://" $model -}}/mnt/model
{{- else -}}{{ list "/mnt/model" (trimPrefix "pvc://" $model | splitList "/" | rest | join "/") | compact | join "/" }}
{{- end -}}
{{- end }}

{{/* The trainer's file: the user's settings, and what only the chart knows. */}}
{{- define "podium.trainerConfig" -}}
{{- $training := .Values.training }}{{ $kafka := .Values.endpoints.kafka }}
{{- $stream := dict "bootstrap" $kafka.bootstrap "topic" .Values.kafka.trajectories.topic "security_protocol" $kafka.securityProtocol }}
{{- if ne $kafka.securityProtocol "PLAINTEXT" }}{{ $_ := set $stream "authority" "/etc/podium/kafka/ca.crt" }}{{ end }}
{{- if eq $kafka.securityProtocol "SSL" }}
{{- $_ := merge $stream (dict "certificate" "/etc/podium/kafka/user.crt" "private_key" "/etc/podium/kafka/user.key") }}
{{- else if eq $kafka.securityProtocol "SASL_SSL" }}
{{- $_ := merge $stream (dict "username" (include "podium.name" (dict "root" . "name" "training")) "password_file" "/etc/podium/kafka/password") }}
{{- end }}
{{- $telemetry := dict "metrics_host" (ternary "::" "0.0.0.0" .Values.dualStack) "metrics_port" .Values.monitoring.metricsPort "log_level" .Values.monitoring.logLevel }}
{{- $config := deepCopy $training.config }}
{{- $made := dict "model" (include "podium.trainingModel" .) "processes" (mul $training.nodes (include "podium.trainingProcesses" .)) "stream" $stream "telemetry" $telemetry }}
{{- if $config.publish }}{{ $_ := set $made "publish" (dict "store" "/mnt/adapters") }}{{ end }}
{{- mergeOverwrite $made $config | toYaml -}}
{{- end }}

{{/* How many processes, and where the first node is: what the Trainer says by the same names. Argument: root. */}}
{{- define "podium.torchrunEnvironment" -}}
- {name: PET_NNODES, value: {{ .Values.training.nodes | quote }}}
- {name: PET_NPROC_PER_NODE, value: {{ include "podium.trainingProcesses" . | quote }}}
- {name: PET_NODE_RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
- {name: JOB_NAME, valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}}}
- {name: PET_MASTER_ADDR, value: $(JOB_NAME)-0.{{ include "podium.host" (dict "root" . "name" "training") }}}
- {name: PET_MASTER_PORT, value: "29500"}
{{- end }}

{{/* Pod template of a training run, for the TrainingRuntime and, without the Trainer, for a Job. Arguments: root, container, and
     policy for a CronJob that learns from its users. */}}
{{- define "podium.trainingPod" -}}
{{- $root := .root }}{{ $training := .root.Values.training }}{{ $launched := not (or .policy .root.Values.integrations.trainer.enabled) }}
{{- $model := $training.model }}
{{- $of := dict "root" .root "name" "training" }}{{ $client := merge (dict "component" $training) $of }}
metadata:
  labels: {{- include "podium.labels" $of | nindent 4 }}
  {{- with include "podium.scrapeAnnotations" $root }}
  annotations: {{- . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "podium.name" $of }}
  {{- include "podium.podSecurity" $root | nindent 2 }}
  {{- include "podium.placement" (dict "from" (include "podium.accelerator" $root | fromJson)) | nindent 2 }}
  restartPolicy: Never
  terminationGracePeriodSeconds: 120
  {{- if $launched }}
  # A pod's name in it is the Job's with the pod's index.
  subdomain: {{ include "podium.name" $of }}
  {{- end }}
  {{- if hasPrefix "hf://" $model }}
  initContainers:
    - name: model
      image: {{ include "podium.image" (dict "root" $root "image" $training.image) }}
      imagePullPolicy: {{ $training.image.pullPolicy }}
      command: [hf, download, {{ trimPrefix "hf://" $model | quote }}, --local-dir, /mnt/model]
      env:
        - {name: HOME, value: /tmp}
        {{- include "podium.hubToken" $root | nindent 8 }}
      resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 4Gi}}
      securityContext: {{- include "podium.containerSecurity" (dict "readOnly" true) | nindent 8 }}
      volumeMounts: [{name: tmp, mountPath: /tmp}, {name: model, mountPath: /mnt/model}]
  {{- end }}
  containers:
    - name: {{ .container }}
      image: {{ include "podium.image" (dict "root" $root "image" $training.image) }}
      imagePullPolicy: {{ $training.image.pullPolicy }}
      {{- if .policy }}
      command: [podium, train, production, {{ .policy }}]
      args: {{ concat (list "--run" "/etc/podium/training/config.yaml" "--once") $training.production.args | toJson }}
      {{- else }}
      command: {{ toJson $training.command }}
      args: {{ toJson $training.args }}
      {{- end }}
      env:
        - {name: HOME, value: /tmp}
        - {name: USER, value: podium}
        {{- if $launched }}
        {{- include "podium.torchrunEnvironment" $root | nindent 8 }}
        {{- end }}
        {{- if .policy }}
        - {name: PODIUM_URL, value: {{ include "podium.gatewayUrl" $root | quote }}}
        - {name: PODIUM_API_KEY, valueFrom: {secretKeyRef: {name: {{ $training.production.secretName }}, key: api-key}}}
        {{- if $root.Values.tls.enabled }}
        - {name: SSL_CERT_FILE, value: {{ include "podium.gatewayAuthorityFile" $root }}}
        {{- end }}
        {{- end }}
      ports:
        - {name: metrics, containerPort: {{ $root.Values.monitoring.metricsPort }}}
        {{- if $launched }}
        - {name: torchrun, containerPort: 29500}
        {{- end }}
      resources: {{- include "podium.acceleratedResources" (dict "root" $root "resources" $training.resources "count" $training.acceleratorsPerNode) | nindent 8 }}
      securityContext: {{- include "podium.acceleratedSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
        - {name: config, mountPath: /etc/podium/training, readOnly: true}
        - {name: checkpoints, mountPath: /checkpoints}
        {{- if not (hasPrefix "image://" $model) }}
        - {name: model, mountPath: /mnt/model, readOnly: true}
        {{- end }}
        {{- include "podium.kafkaMounts" $client | nindent 8 }}
        {{- if .policy }}
        {{- include "podium.gatewayAuthorityMount" $root | nindent 8 }}
        {{- end }}
        {{- if $root.Values.inference.adapters.enabled }}
        - {name: adapters, mountPath: /mnt/adapters}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 20Gi}}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $root.Values.inference.engine.sharedMemory }}}}
    - {name: config, configMap: {name: {{ include "podium.name" $of }}, items: [{key: config.yaml, path: config.yaml}]}}
    - {name: checkpoints, persistentVolumeClaim: {claimName: {{ $training.checkpointsClaim | default (printf "%s-checkpoints" (include "podium.name" $of)) }}}}
    {{- if hasPrefix "pvc://" $model }}
    - {name: model, persistentVolumeClaim: {claimName: {{ trimPrefix "pvc://" $model | splitList "/" | first }}, readOnly: true}}
    {{- else if hasPrefix "hf://" $model }}
    - {name: model, emptyDir: {sizeLimit: 100Gi}}
    {{- end }}
    {{- include "podium.kafkaVolumes" $client | nindent 4 }}
    {{- if .policy }}
    {{- include "podium.gatewayAuthorityVolume" (dict "root" $root) | nindent 4 }}
    {{- end }}
    {{- if $root.Values.inference.adapters.enabled }}
    - {name: adapters, persistentVolumeClaim: {claimName: {{ $root.Values.inference.adapters.claimName }}}}
    {{- end }}
{{- end }}

{{/* What would fail again ends the run; who loses its node is not counted. */}}
{{- define "podium.trainingFailures" -}}
rules:
  - action: FailJob
    onExitCodes: {containerName: node, operator: In, values: [2, 3]}
  - action: Ignore
    onPodConditions: [{type: DisruptionTarget, status: "True"}]
{{- end }}

{{- define "podium.runtimeFailures" -}}
maxRestarts: {{ .Values.training.restarts }}
rules: [{name: failsAgain, action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}]
{{- end }}

{{/* A runtime's failurePolicy is immutable: another one is another runtime. */}}
{{- define "podium.runtimeName" -}}
{{- printf "%s-%s" (include "podium.name" (dict "root" . "name" "training")) (include "podium.runtimeFailures" . | sha256sum | trunc 8) -}}
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
  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: {{ include "podium.runtimeName" . }}}
  trainer:
    numNodes: {{ $training.nodes }}
    numProcPerNode: {{ include "podium.trainingProcesses" . }}
    resourcesPerNode: {{- include "podium.acceleratedResources" (dict "root" . "resources" $training.resources "count" $training.acceleratorsPerNode) | nindent 6 }}
  {{- else }}
  completionMode: Indexed
  completions: {{ $training.nodes }}
  parallelism: {{ $training.nodes }}
  # When one is killed the others end, too, and all begin again.
  backoffLimit: {{ mul $training.nodes $training.restarts }}
  podFailurePolicy: {{- include "podium.trainingFailures" . | nindent 4 }}
  template: {{- include "podium.trainingPod" (dict "root" . "container" "node") | nindent 4 }}
  {{- end }}
{{- end }}
