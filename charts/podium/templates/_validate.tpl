{{/* What a schema cannot say. Every message names the key and the fix. */}}
{{- define "podium.validate" -}}
{{- $values := .Values }}{{ $inference := .Values.inference }}{{ $kind := include "podium.engineKind" . }}
{{- if and (eq $inference.mode "external") (not $inference.external.baseUrl) }}
{{- fail "inference.external.baseUrl is empty: set the OpenAI-compatible URL, with its /v1" }}
{{- end }}
{{- if and (eq $kind "llmInferenceService") (not $inference.llmInferenceService.baseUrl) }}
{{- fail "inference.llmInferenceService.baseUrl is empty: set the URL that its gateway answers on, with its /v1" }}
{{- end }}
{{- if and (eq $kind "deployment") (not (regexMatch "^(pvc|hf|image)://" $inference.modelUri)) }}
{{- fail (printf "inference.modelUri %s needs KServe: enable integrations.kserve, or use pvc://, hf:// or image://" $inference.modelUri) }}
{{- end }}
{{- if and (hasPrefix "image://" $inference.modelUri) (eq $kind "llmInferenceService") }}
{{- fail "inference.modelUri image:// is not for an LLMInferenceService, which brings weights itself: use pvc://, hf:// or another" }}
{{- end }}
{{- if lt (int $inference.maxReplicas) (int $inference.minReplicas) }}
{{- fail "inference.maxReplicas is below inference.minReplicas: raise it" }}
{{- end }}
{{- if and (eq (int $values.accelerator.rollout.maxSurge) 0) (eq (int $values.accelerator.rollout.maxUnavailable) 0) }}
{{- fail "accelerator.rollout: maxSurge and maxUnavailable are both 0, so nothing could ever roll: raise one" }}
{{- end }}
{{- range $name := list "trajectories" "alerts" }}
{{- $topic := index $values.kafka $name }}
{{- if gt (int $topic.minInSyncReplicas) (int $topic.replicas) }}
{{- fail (printf "kafka.%s.minInSyncReplicas is above replicas, so nothing could be written: lower it" $name) }}
{{- end }}
{{- end }}
{{- if and $values.training.enabled $values.training.config.publish (not $values.inference.adapters.enabled) (not $values.training.config.publish.store) }}
{{- fail "training.config.publish has no store: enable inference.adapters, whose claim is one, or set training.config.publish.store" }}
{{- end }}
{{- if and $values.training.enabled $values.training.production.enabled }}
{{- if not (and $values.training.config.publish $values.training.production.policies) }}
{{- fail "training.production promotes versions of policies: set training.config.publish.run and training.production.policies" }}
{{- end }}
{{- if gt (int $values.training.nodes) 1 }}
{{- fail "training.production learns in one pod: set training.nodes: 1" }}
{{- end }}
{{- end }}
{{- if regexMatch "^(s3|gs)://" $values.training.model }}
{{- fail (printf "training.model %s is in a bucket, which a run does not read: mount it by its CSI driver and name the claim, pvc://CLAIM/FOLDER (docs/adr/0051)" $values.training.model) }}
{{- end }}
{{- if and $values.endpoints.temporal.tls.enabled (not $values.endpoints.temporal.tls.secretName) }}
{{- fail "endpoints.temporal.tls.secretName is empty: name the Secret with tls.crt, tls.key and ca.crt" }}
{{- end }}
{{- if and $values.ingress.enabled $values.networkPolicy.enabled (not $values.ingress.from) }}
{{- fail "ingress.from is empty, so the network policy would let no request in: add ingress.from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}] with the namespace of your ingress controller or Gateway" }}
{{- end }}
{{- if and $values.integrations.prometheusOperator.enabled $values.networkPolicy.enabled (not $values.monitoring.from) }}
{{- fail "monitoring.from is empty, so the network policy would let no scraper in: add monitoring.from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}] with the namespace of your Prometheus" }}
{{- end }}
{{- if le (include "podium.seconds" $values.tls.duration | int) (include "podium.seconds" $values.tls.renewBefore | int) }}
{{- fail "tls.renewBefore is not below tls.duration, so every certificate would be renewed at once: lower it" }}
{{- end }}
{{- include "podium.validateBootstrap" . }}
{{- include "podium.validateExperts" . }}
{{- range $name, $_ := include "podium.components" $ | fromJson }}
{{- include "podium.validateComponent" (dict "root" $ "name" $name "component" (include "podium.component" (dict "root" $ "name" $name) | fromYaml)) }}
{{- end }}
{{- end }}

{{- define "podium.validateComponent" -}}
{{- $c := .component }}
{{- if and (ne $c.protocol "none") (not $c.port) }}
{{- fail (printf "components.%s.port is missing: it serves %s" .name $c.protocol) }}
{{- end }}
{{- if and (has "postgres" $c.calls) (not $c.database) }}
{{- fail (printf "components.%s.database is missing: it calls postgres" .name) }}
{{- end }}
{{- if lt (int $c.terminationGracePeriodSeconds) (int (add $c.drain.waitSeconds $c.drain.graceSeconds 5)) }}
{{- fail (printf "components.%s.terminationGracePeriodSeconds is shorter than its drain and 5 seconds: raise it" .name) }}
{{- end }}
{{- if lt (int $c.autoscaling.maxReplicas) (int $c.autoscaling.minReplicas) }}
{{- fail (printf "components.%s.autoscaling.maxReplicas is below minReplicas: raise it" .name) }}
{{- end }}
{{- end }}

{{- define "podium.validateBootstrap" -}}
{{- $b := .Values.bootstrap }}
{{- if and .Values.controller.enabled (eq .Values.controller.keySecret.secretName (include "podium.platformKeySecret" .)) }}
{{- fail (printf "controller.keySecret names %s, the key of the platform's administrator: name the Secret of a tenant's key, such as {secretName: %s, key: tenant}" .Values.controller.keySecret.secretName (include "podium.name" (dict "root" . "name" "api-keys"))) }}
{{- end }}
{{- if and $b.enabled (or $b.policies $b.budgets) (not $b.tenant.enabled) }}
{{- fail "bootstrap.policies and bootstrap.budgets belong to the first tenant: set bootstrap.tenant.enabled: true" }}
{{- end }}
{{- if and $b.enabled $b.budgets (not .Values.inference.sku) }}
{{- fail "bootstrap.budgets would hold calls without a price: set inference.sku, and its price in bootstrap.prices.list" }}
{{- end }}
{{- end }}
