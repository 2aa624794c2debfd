{{- /* What the release is called in labels. */}}
{{- define "nodens.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* What its objects are called. */}}
{{- define "nodens.fullname" -}}
{{- $name := include "nodens.name" . }}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $release | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "nodens.serviceAccountName" -}}
{{- $made := ternary (include "nodens.fullname" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $made }}
{{- end }}

{{- define "nodens.clusterRoleName" -}}
{{- .Values.clusterRole.nameOverride | default (include "nodens.fullname" .) }}
{{- end }}

{{- /* By these a selector finds the pods. */}}
{{- define "nodens.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/name: {{ include "nodens.name" . }}
{{- if .Values.isClusterService }}
k8s-app: {{ .Values.k8sAppLabelOverride | default (include "nodens.name" .) }}
{{- end }}
{{- end }}

{{- define "nodens.labels" -}}
{{ include "nodens.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- if .Values.isClusterService }}
kubernetes.io/cluster-service: "true"
kubernetes.io/name: CoreDNS
{{- end }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Annotations of an object: (list root further…), nothing when there are none. */}}
{{- define "nodens.annotations" -}}
{{- $all := dict }}
{{- range prepend (rest .) (first .).Values.customAnnotations }}
{{- $all = mergeOverwrite $all (. | default dict) }}
{{- end }}
{{- with $all }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /*
The ports of all server blocks as {"ports": […]}: per number once for UDP and once for TCP. DNS is both (RFC 7766), unless
every zone says `use_tcp: false`; other schemes are TCP, but for quic and https3. UDP comes first, as in CoreDNS's chart: an
upgrade that changes the order of ports with the same number fails (kubernetes/kubernetes#105610).
*/}}
{{- define "nodens.ports" -}}
{{- $ports := dict }}
{{- $ofPorts := dict }}
{{- range $server := .Values.servers }}
{{- $number := $server.port | default 53 | int }}
{{- /* Several blocks share a port, and one of them may be alone in saying what it is outside of the pod. */}}
{{- $ofPort := get $ofPorts (toString $number) | default dict }}
{{- range $name := list "servicePort" "nodePort" "hostPort" }}
{{- with get $server $name }}
{{- $before := get $ofPort $name | default . }}
{{- if ne (int .) (int $before) }}
{{- fail (printf "servers: %s of port %d is %d in one block and %d in another" $name $number (int $before) (int .)) }}
{{- end }}
{{- $_ := set $ofPort $name . }}
{{- end }}
{{- end }}
{{- $_ := set $ofPorts (toString $number) $ofPort }}
{{- range $server.zones | default (list dict) }}
{{- $scheme := .scheme | default "dns://" }}
{{- $dns := eq $scheme "dns://" }}
{{- $udp := or $dns (has $scheme (list "quic://" "https3://")) }}
{{- $tcp := ternary (ne (.use_tcp | toString) "false") (not $udp) $dns }}
{{- range $place, $protocol := list "udp" "tcp" }}
{{- if ternary $udp $tcp (eq $protocol "udp") }}
{{- $name := printf "%s-%d" $protocol $number }}
{{- $port := dict "name" $name "protocol" (upper $protocol) "number" $number "server" $ofPort }}
{{- $_ := set $ports (printf "%d-%d" $number $place) $port }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $list := list }}
{{- range $_, $port := $ports }}
{{- $list = append $list $port }}
{{- end }}
{{- dict "ports" $list | toJson }}
{{- end }}

{{- define "nodens.servicePorts" -}}
{{- range (include "nodens.ports" . | fromJson).ports }}
- name: {{ .name }}
  port: {{ .server.servicePort | default .number | int }}
  protocol: {{ .protocol }}
  targetPort: {{ .number | int }}
  {{- with .server.nodePort }}
  nodePort: {{ . | int }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "nodens.containerPorts" -}}
{{- range (include "nodens.ports" . | fromJson).ports }}
- name: {{ .name }}
  containerPort: {{ .number | int }}
  protocol: {{ .protocol }}
  {{- with .server.hostPort }}
  hostPort: {{ . | int }}
  {{- end }}
{{- end }}
{{- $metrics := dict }}
{{- range .Values.servers }}
{{- range .plugins }}
{{- if eq .name "prometheus" }}
{{- $address := .parameters | default "localhost:9153" | toString }}
{{- $_ := set $metrics (regexFind "[0-9]+$" $address) true }}
{{- end }}
{{- end }}
{{- end }}
{{- range $number, $_ := $metrics }}
- name: tcp-{{ $number }}
  containerPort: {{ $number }}
  protocol: TCP
{{- end }}
{{- end }}

{{- /* Values of CoreDNS's chart that would be silently without effect. */}}
{{- define "nodens.refuse" -}}
{{- if (.Values.autoscaler | default dict).enabled }}
{{- fail "autoscaler: this chart brings no cluster-proportional-autoscaler; use hpa, or run it beside the release" }}
{{- end }}
{{- if .Values.rbac.pspEnable }}
{{- fail "rbac.pspEnable: Kubernetes 1.25 removed PodSecurityPolicy" }}
{{- end }}
{{- if and (eq .Values.deployment.dnsPolicy "None") (not .Values.deployment.dnsConfig) }}
{{- fail "deployment.dnsConfig: needed with deployment.dnsPolicy None" }}
{{- end }}
{{- end }}
