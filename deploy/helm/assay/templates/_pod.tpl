{{- define "assay.labels" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "assay.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
labels:
  {{- include "assay.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Annotations of a pod. They change with the settings, so that a change restarts the pods. */}}
{{- define "assay.annotations" -}}
checksum/settings: {{ list .root.Values.settings .root.Values.sandboxes .root.Values.baseUrl | toJson | sha256sum }}
{{- if and .server .root.Values.metrics.annotations }}
prometheus.io/scrape: 'true'
prometheus.io/path: /metrics
prometheus.io/port: {{ .port | quote }}
{{- end }}
{{- end }}

{{/* The pod of one process: root, component, command, port (if it listens), token (whether it has one), env, resources. */}}
{{- define "assay.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .token | ternary (printf "%s-worker" .root.Release.Name) "default" }}
automountServiceAccountToken: {{ .token }}
# A Service called assay would otherwise set ASSAY_PORT.
enableServiceLinks: false
terminationGracePeriodSeconds: 60
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{ range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $values.hostAliases }}
hostAliases: {{ toJson . }}
{{- end }}
{{- if .port }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "assay.labels" . | nindent 8 }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ printf "%s:%s" $values.image.repository ($values.image.tag | default .root.Chart.AppVersion) | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: [{{ .command }}]
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: { drop: [ALL] }
    envFrom:
      - secretRef: { name: {{ $values.secrets.shared }} }
      {{- if and .server $values.secrets.server }}
      - secretRef: { name: {{ $values.secrets.server }} }
      {{- end }}
    env:
      - { name: ASSAY_DATA, value: /var/lib/assay/data }
      - { name: ASSAY_BLOBS, value: {{ $values.blobs.url | default "file:/var/lib/assay-blobs" | quote }} }
      - { name: ASSAY_BASE_URL, value: {{ $values.baseUrl | quote }} }
      {{- range $name, $value := .env }}
      - { name: {{ $name }}, value: {{ $value | quote }} }
      {{- end }}
      {{- range $name, $value := $values.settings }}
      - { name: {{ $name }}, value: {{ $value | quote }} }
      {{- end }}
    {{- with .port }}
    ports: [{ name: http, containerPort: {{ . }} }]
    startupProbe: { httpGet: { path: /readyz, port: http }, periodSeconds: 2, failureThreshold: 60 }
    readinessProbe: { httpGet: { path: /readyz, port: http }, periodSeconds: 5, timeoutSeconds: 5 }
    livenessProbe: { httpGet: { path: /healthz, port: http }, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }
    {{- end }}
    resources: {{ toJson .resources }}
    volumeMounts:
      - { name: data, mountPath: /var/lib/assay }
      - { name: tmp, mountPath: /tmp }
      {{- if $values.blobs.claim }}
      - { name: blobs, mountPath: /var/lib/assay-blobs }
      {{- end }}
      {{- if .token }}
      - { name: sandboxes, mountPath: /etc/assay, readOnly: true }
      {{- if $values.sandboxes.registrySecret }}
      - { name: registry, mountPath: /etc/assay-registry, readOnly: true }
      {{- end }}
      {{- end }}
volumes:
  # The ephemeral-storage limit of the container covers both.
  - { name: data, emptyDir: {} }
  - { name: tmp, emptyDir: {} }
  {{- with $values.blobs.claim }}
  - { name: blobs, persistentVolumeClaim: { claimName: {{ . }} } }
  {{- end }}
  {{- if .token }}
  - { name: sandboxes, configMap: { name: {{ .root.Release.Name }}-sandboxes } }
  {{- with $values.sandboxes.registrySecret }}
  - { name: registry, secret: { secretName: {{ . }}, defaultMode: 0440, items: [{ key: .dockerconfigjson, path: config.json }] } }
  {{- end }}
  {{- end }}
{{- end }}
