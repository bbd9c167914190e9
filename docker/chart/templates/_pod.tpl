{{- define "serve.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- {name: MODEL_NAME, value: {{ .Values.model.name | quote }}}
- {name: MLFLOW_TRACKING_URI, value: {{ .Values.mlflow.trackingUri | quote }}}
- {name: MODEL_CACHE_DIR, value: /tmp/model_cache}
- {name: SERVING_CONCURRENCY, value: {{ .Values.concurrency | quote }}}
- {name: SERVING_DRAIN_SECONDS, value: {{ .Values.rollout.drainSeconds | quote }}}
- {name: SERVING_REQUIRE_DIGEST, value: {{ .Values.model.requireDigest | quote }}}
- {name: REDIS_PREFIX, value: {{ .Values.redis.prefix | quote }}}
{{- with .Values.mlflow.secret }}
{{ include "env.secret" (dict "env" "MLFLOW_TRACKING_USERNAME" "secret" . "key" $.Values.mlflow.usernameKey) }}
{{ include "env.secret" (dict "env" "MLFLOW_TRACKING_PASSWORD" "secret" . "key" $.Values.mlflow.passwordKey) }}
{{ include "env.secret" (dict "env" "MLFLOW_TRACKING_TOKEN" "secret" . "key" $.Values.mlflow.tokenKey) }}
{{- end }}
{{- if .Values.mlflow.caSecret }}
- {name: MLFLOW_TRACKING_SERVER_CERT_PATH, value: /etc/mlflow-ca/ca.crt}
{{- end }}
{{- with .Values.redis.secret }}
{{ include "env.secret" (dict "env" "REDIS_URL" "secret" . "key" "url") }}
{{ include "env.secret" (dict "env" "REDIS_PASSWORD" "secret" . "key" "password") }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "serve.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- if .Values.gpus -}}
{{- $_ := set $resources "limits" (merge (dict "nvidia.com/gpu" .Values.gpus) (default dict $resources.limits)) -}}
{{- $_ := set $resources "requests" (merge (dict "nvidia.com/gpu" .Values.gpus) (default dict $resources.requests)) -}}
{{- end -}}
{{ toYaml $resources }}
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
