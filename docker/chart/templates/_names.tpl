{{- define "serve.labels" -}}
app: {{ .Values.name }}
{{ include "common.labels" . }}
{{- end -}}

{{- define "common.labels" -}}
app.kubernetes.io/name: mlflow-serve
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: airflow-provider-ragops
{{- end -}}

{{- define "serve.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* dict: env name, secret, key. Optional, because one Secret may hold a token or a user and password. */}}
{{- define "env.secret" -}}
- name: {{ .env }}
  valueFrom:
    secretKeyRef: {name: {{ .secret }}, key: {{ .key }}, optional: true}
{{- end -}}

{{- define "releaser.subjects" -}}
- kind: ServiceAccount
  name: {{ .Values.releaser.name }}
  namespace: {{ .Release.Namespace }}
{{- with .Values.releaser.subjects }}
{{ toYaml . }}
{{- end }}
{{- end -}}
