{{/* SPDX-License-Identifier: GPL-2.0-only */}}

{{/* The one name: a node has one weir, so that a cluster has one release. */}}
{{- define "weir.labels" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Not empty where the nodes' pods bring the module. */}}
{{- define "weir.module" -}}
{{- if and .Values.module.enabled (ne .Values.mode "stock") }}yes{{ end }}
{{- end }}

{{/* `false` where a node without the module is none to stop at. */}}
{{- define "weir.required" -}}
{{- and .Values.module.required (ne .Values.mode "auto") }}
{{- end }}

{{/* The image `NAME` of (list . "NAME"). */}}
{{- define "weir.image" -}}
{{- $root := index . 0 -}}
image: {{ printf "%s/%s:%s" $root.Values.image.registry (index . 1) ($root.Values.image.tag | default $root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- end }}

{{/* A root that may do what is listed and no more. */}}
{{- define "weir.root" -}}
runAsUser: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: {{ index . 0 }}
capabilities:
  drop: [ALL]
  {{- with index . 1 }}
  add: {{ toJson . }}
  {{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* A user that may do nothing. */}}
{{- define "weir.nobody" -}}
runAsUser: 65534
runAsGroup: 65534
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* kubelet mounts a token in every container of a pod or in none; this one goes where it is needed. */}}
{{- define "weir.token" -}}
name: token
projected:
  sources:
  - serviceAccountToken: {path: token, expirationSeconds: 3600}
  - configMap:
      name: kube-root-ca.crt
      items: [{key: ca.crt, path: ca.crt}]
{{- end }}

{{/* A probe of (list "ADDRESS:PORT" "PATH"). */}}
{{- define "weir.get" -}}
{{- $listen := index . 0 -}}
host: {{ $listen | regexFind "^.*:" | trimSuffix ":" | trimPrefix "[" | trimSuffix "]" | quote }}
port: {{ $listen | regexFind "[0-9]+$" }}
path: {{ index . 1 }}
{{- end }}

{{/* Options of `weir load`, a list. */}}
{{- define "weir.parameters" -}}
{{- list (ternary "--observe" "" .Values.module.observe) (ternary "--fair" "" .Values.module.fair) | compact | toJson -}}
{{- end }}
