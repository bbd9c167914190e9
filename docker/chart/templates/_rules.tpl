{{/* This tier's own series: both labels are what a PodMonitor attaches. */}}
{{- define "rules.own" -}}
namespace={{ .Release.Namespace | quote }}, container={{ .Values.name | quote }}
{{- end -}}

{{/* How often in 5 minutes. increase() alone misses what a counter begins with: its first sample is no increase. */}}
{{- define "rules.counted" -}}
sum by (namespace, container, model_name, model_version) (increase({{ . }}[5m])) > 0
or
sum by (namespace, container, model_name, model_version) ({{ . }} unless {{ . }} offset 5m) > 0
{{- end -}}

{{- define "serve.rules" -}}
{{- $own := include "rules.own" . -}}
{{- $monitoring := .Values.monitoring -}}
{{- $version := "namespace, container, model_name, model_version" -}}
{{- $latency := "ragops_version:mlflow_inference_latency_seconds:mean5m" -}}
- name: {{ .Release.Namespace }}-{{ .Values.name }}
  rules:
    # The mean, because it is exact; a quantile is a guess between two bounds of the histogram, a factor of 2 apart.
    - record: {{ $latency }}
      expr: |
        sum by ({{ $version }}) (rate(mlflow_inference_latency_seconds_sum{ {{- $own -}} }[5m]))
        /
        (sum by ({{ $version }}) (rate(mlflow_inference_latency_seconds_count{ {{- $own -}} }[5m])) > 0)
    - alert: RagCacheMismatch
      expr: |
        {{- include "rules.counted" (printf `mlflow_serving_cache_total{%s, outcome="mismatch"}` $own) | nindent 8 }}
        or
        {{- include "rules.counted" (printf `mlflow_inference_errors_total{%s, code=~"embedding_dimension_mismatch|tokenizer_mismatch"}` $own) | nindent 8 }}
      labels: {severity: {{ $monitoring.severity | quote }}}
      annotations:
        summary: Pods meet what belongs to another version
        description: >-
          {{ `{{ $labels.model_name }} version {{ $labels.model_version }} in {{ $labels.namespace }}: {{ $value | humanize }}` }}
          values, vectors or tokens in the last 5 minutes were not this version's. See docs/serving-tier.md.
    - alert: RagLatencyAfterVersionChange
      # A version that did not serve between one and two hours ago, against the slowest that did.
      expr: |
        (
          {{ $latency }}{ {{- $own -}} } > {{ $monitoring.latencyFloorSeconds }}
          unless on ({{ $version }})
          avg_over_time({{ $latency }}{ {{- $own -}} }[1h] offset 1h)
        )
        > on (namespace, container, model_name) group_left ()
        {{ $monitoring.latencyFactor }} * max by (namespace, container, model_name) (avg_over_time({{ $latency }}{ {{- $own -}} }[1h] offset 1h))
      for: 5m
      labels: {severity: {{ $monitoring.severity | quote }}}
      annotations:
        summary: The new version is more than {{ $monitoring.latencyFactor }} times as slow as what served before
        description: >-
          {{ `{{ $labels.model_name }} version {{ $labels.model_version }} in {{ $labels.namespace }} takes {{ $value | humanizeDuration }}` }}
          for a request. See docs/serving-tier.md.
    - alert: RagCacheKeyGrowth
      expr: |
        max by ({{ $version }}) (rag_cache_keys{ {{- $own -}} })
        {{- if $monitoring.expectedKeys }}
        > {{ int64 $monitoring.expectedKeys }}
        {{- else }}
        > max by ({{ $version }}) (rag_cache_expected_keys{ {{- $own -}} })
        {{- end }}
      for: 15m
      labels: {severity: {{ $monitoring.severity | quote }}}
      annotations:
        summary: One version has more keys in Redis than expected
        description: >-
          {{ `{{ $labels.model_name }} version {{ $labels.model_version }} in {{ $labels.namespace }}: {{ $value | humanize }}` }}
          keys. See docs/serving-tier.md.
{{- end -}}
