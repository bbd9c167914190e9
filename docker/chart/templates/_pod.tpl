{{- define "serve.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- {name: MODEL_NAME, value: {{ .Values.model.name | quote }}}
- {name: MLFLOW_TRACKING_URI, value: {{ .Values.mlflow.trackingUri | quote }}}
- {name: MODEL_CACHE_DIR, value: /tmp/model_cache}
- {name: SERVING_CONCURRENCY, value: {{ .Values.concurrency | quote }}}
- {name: SERVING_REQUEST_SECONDS, value: {{ .Values.requestSeconds | quote }}}
- {name: SERVING_DRAIN_SECONDS, value: {{ .Values.rollout.drainSeconds | quote }}}
- {name: SERVING_LINGER_SECONDS, value: {{ .Values.rollout.lingerSeconds | quote }}}
- {name: SERVING_REQUIRE_DIGEST, value: {{ .Values.model.requireDigest | quote }}}
{{- with .Values.logKeySecret }}
{{ include "env.secret" (dict "env" "SERVING_LOG_KEY" "secret" . "key" "key") }}
{{- end }}
{{- with .Values.mlflow.secret }}
{{ include "env.secret" (dict "env" "MLFLOW_TRACKING_USERNAME" "secret" . "key" $.Values.mlflow.usernameKey) }}
{{ include "env.secret" (dict "env" "MLFLOW_TRACKING_PASSWORD" "secret" . "key" $.Values.mlflow.passwordKey) }}
{{ include "env.secret" (dict "env" "MLFLOW_TRACKING_TOKEN" "secret" . "key" $.Values.mlflow.tokenKey) }}
{{- end }}
{{- if .Values.mlflow.caSecret }}
- {name: MLFLOW_TRACKING_SERVER_CERT_PATH, value: /etc/mlflow-ca/ca.crt}
{{- end }}
{{- with .Values.redis }}
{{- if .secret }}
{{ include "env.secret" (dict "env" "REDIS_URL" "secret" .secret "key" .urlKey) }}
{{ include "env.secret" (dict "env" "REDIS_USERNAME" "secret" .secret "key" .usernameKey) }}
{{ include "env.secret" (dict "env" "REDIS_PASSWORD" "secret" .secret "key" .passwordKey) }}
- {name: REDIS_CLUSTER, value: {{ .cluster | quote }}}
- {name: REDIS_PREFIX, value: {{ .prefix | quote }}}
- {name: REDIS_BUDGET_MS, value: {{ int64 .budgetMilliseconds | quote }}}
- {name: REDIS_TTL_SECONDS, value: {{ int64 .ttlSeconds | quote }}}
- {name: REDIS_MAY_EVICT, value: {{ .mayEvict | quote }}}
{{- if .caSecret }}
- {name: REDIS_CA_FILE, value: /etc/redis-ca/ca.crt}
{{- end }}
{{- if .clientSecret }}
- {name: REDIS_CERT_FILE, value: /etc/redis-client/tls.crt}
- {name: REDIS_KEY_FILE, value: /etc/redis-client/tls.key}
{{- end }}
{{- else if or .caSecret .clientSecret }}{{ fail "redis: caSecret or clientSecret without secret: name the Secret that holds the URL, too" }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Ready: the assigned version, and no other, is loaded and has answered; the tier's version is the pod's own, so no
probe names it. Alive: the process answers, whatever became of its model: a restart would not help that. */}}
{{- define "serve.probes" -}}
startupProbe:
  httpGet: {path: /health/live, port: http}
  periodSeconds: 1
  timeoutSeconds: 1
  failureThreshold: {{ .Values.rollout.startupSeconds }}
readinessProbe:
  httpGet: {path: /health, port: http}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 3
livenessProbe:
  httpGet: {path: /health/live, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- define "serve.lifecycle" -}}
{{- $rollout := .Values.rollout -}}
{{- $hook := add $rollout.preStopSeconds $rollout.clearSeconds -}}
{{- $all := add $hook $rollout.drainSeconds -}}
{{- if ge $all (int64 $rollout.terminationGracePeriodSeconds) }}
{{- fail (printf "rollout: preStopSeconds (%d) + clearSeconds (%d) + drainSeconds (%d) = %d s, expected less than terminationGracePeriodSeconds (%d): requests in flight would be cut" (int64 $rollout.preStopSeconds) (int64 $rollout.clearSeconds) (int64 $rollout.drainSeconds) $all (int64 $rollout.terminationGracePeriodSeconds)) }}
{{- end }}
{{- $longest := add $rollout.lingerSeconds .Values.requestSeconds -}}
{{- if gt $longest (int64 $rollout.drainSeconds) }}
{{- fail (printf "rollout: lingerSeconds (%d) + requestSeconds (%d) = %d s, expected no more than drainSeconds (%d): the longest request would be cut when its pod leaves" (int64 $rollout.lingerSeconds) (int64 .Values.requestSeconds) $longest (int64 $rollout.drainSeconds)) }}
{{- end -}}
preStop:
  exec:
    command:
      - python
      - -m
      - airflow_provider_ragops.workloads.serving.leaving
      - {{ $rollout.preStopSeconds | quote }}
      - {{ $rollout.clearSeconds | quote }}
{{- end -}}

{{- define "serve.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- if .Values.gpus -}}
{{- /* A quantity is text for the API server: an older one refuses a bare number in a server-side apply. */ -}}
{{- $gpus := dict "nvidia.com/gpu" (.Values.gpus | int64 | toString) -}}
{{- $_ := set $resources "limits" (merge (deepCopy $gpus) (default dict $resources.limits)) -}}
{{- $_ := set $resources "requests" (merge (deepCopy $gpus) (default dict $resources.requests)) -}}
{{- end -}}
{{ toYaml $resources }}
{{- end -}}

{{/* Secrets that are files, by volume. */}}
{{- define "serve.files" -}}
{{- with .Values.mlflow.caSecret }}
mlflow-ca: {{ . }}
{{- end }}
{{- with .Values.redis.caSecret }}
redis-ca: {{ . }}
{{- end }}
{{- with .Values.redis.clientSecret }}
redis-client: {{ . }}
{{- end }}
{{- end -}}

{{- define "serve.mounts" -}}
- {name: tmp, mountPath: /tmp}
# mountPath takes no variables; the directory per pod comes from subPathExpr.
- {name: model-cache, mountPath: /tmp/model_cache, subPathExpr: $(POD_NAME)}
{{- range $name, $secret := fromYaml (include "serve.files" .) }}
- {name: {{ $name }}, mountPath: /etc/{{ $name }}, readOnly: true}
{{- end }}
{{- if .Values.gpus }}
- {name: shm, mountPath: /dev/shm}
{{- end }}
{{- end -}}

{{- define "serve.volumes" -}}
- name: tmp
  emptyDir: {}
- name: model-cache {{- include "serve.cache" . | nindent 2 }}
{{- range $name, $secret := fromYaml (include "serve.files" .) }}
- name: {{ $name }}
  secret: {secretName: {{ $secret }}}
{{- end }}
{{- if .Values.gpus }}
# PyTorch's processes share tensors there; a container's own has 64 MiB.
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ .Values.shmSize }}}
{{- end }}
{{- end -}}

{{- define "serve.cache" -}}
{{- $cache := .Values.modelCache -}}
{{- if and $cache.hostPath $cache.persistentVolumeClaim }}{{ fail "modelCache: set hostPath or persistentVolumeClaim, not both" }}{{ end -}}
{{- if $cache.hostPath -}}
hostPath: {path: {{ $cache.hostPath | quote }}, type: Directory}
{{- else if $cache.persistentVolumeClaim -}}
persistentVolumeClaim: {claimName: {{ $cache.persistentVolumeClaim }}}
{{- else -}}
emptyDir: {{ toYaml $cache.emptyDir | nindent 2 }}
{{- end -}}
{{- end -}}
