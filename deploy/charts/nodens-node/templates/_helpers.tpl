{{- define "node.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "node.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "node.serviceAccountName" -}}
{{- $made := ternary (include "node.fullname" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $made }}
{{- end }}

{{- /* NodeLocal DNSCache's selector and no more: a DaemonSet's cannot be changed. */}}
{{- define "node.selector" -}}
k8s-app: {{ include "node.fullname" . }}
{{- end }}

{{- define "node.labels" -}}
{{ include "node.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/name: {{ include "node.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Whether the pods are in the node's network: (dict "host" true) as text that is empty when not. */}}
{{- define "node.host" -}}
{{- if ne .Values.mode "cilium" }}true{{ end }}
{{- end }}

{{- /* The addresses of the cluster's DNS, with commas between. */}}
{{- define "node.server" -}}
{{- if .Values.config.dnsServer }}
{{- .Values.config.dnsServer | replace " " "" }}
{{- else }}
{{- $service := lookup "v1" "Service" .Values.cilium.serviceNamespace .Values.cilium.serviceName | default dict }}
{{- $found := ($service.spec | default dict).clusterIPs | default list | join "," }}
{{- $found | required "config.dnsServer: the address of the Service kube-dns (kubectl -n kube-system get service kube-dns)" }}
{{- end }}
{{- end }}

{{- define "node.local" -}}
{{- .Values.config.localDns | replace " " "" | required "config.localDns: at least one address" }}
{{- end }}

{{- /* What is given to -localip: in IPVS mode kube-proxy owns the Service's addresses. */}}
{{- define "node.addresses" -}}
{{- include "node.local" . }}
{{- if ne .Values.mode "ipvs" }},{{ include "node.server" . }}{{ end }}
{{- end }}

{{- define "node.bind" -}}
{{- if include "node.host" . }}
{{- include "node.addresses" . | replace "," " " }}
{{- else }}
{{- print "0.0.0.0" }}
{{- end }}
{{- end }}

{{- /* Where health and ready are asked: at a node's own address, or at the pod's. The kubelet puts brackets around it itself. */}}
{{- define "node.probed" -}}
{{- if include "node.host" . }}
{{- include "node.local" . | splitList "," | first }}
{{- end }}
{{- end }}

{{- /* The same as a Corefile has it in front of a port. */}}
{{- define "node.served" -}}
{{- $address := include "node.probed" . }}
{{- ternary (printf "[%s]" $address) $address (contains ":" $address) }}
{{- end }}

{{- define "node.upstream" -}}
{{- .Values.config.customUpstreamsvc | default .Values.upstreamService.name }}
{{- end }}

{{- /* Whether that is a Service, whose servers the Kubernetes API has, and no address or host name. */}}
{{- define "node.upstreamIsService" -}}
{{- if regexMatch "^([^.:,/]+/)?[^.:,/]+$" (include "node.upstream" .) }}true{{ end }}
{{- end }}

{{- define "node.ownUpstream" -}}
{{- if and .Values.upstreamService.create (not .Values.config.customUpstreamsvc) }}true{{ end }}
{{- end }}

{{- define "node.prefetch" -}}
{{- with .Values.config.prefetch }}
{{- if .enabled }}prefetch {{ .amount }} {{ .duration }} {{ .percentage }}{{ end }}
{{- end }}
{{- end }}

{{- /* A block for names whose answers are cached for cacheTTL: (list root zone forward extra). */}}
{{- define "node.block" -}}
{{- $root := first . }}
{{- $prefetch := include "node.prefetch" $root }}
{{ index . 1 }}:53 {
    {{- if $root.Values.config.enableLogging }}
    log
    {{- end }}
    errors
    cache {{ $root.Values.config.cacheTTL }}{{ with $prefetch }} {
            {{ . }}
    }{{ end }}
    reload
    loop
    bind {{ include "node.bind" $root }}
    {{- index . 2 | nindent 4 }}
    {{- if $root.Values.config.noIPv6Lookups }}
    template IN AAAA {
            rcode NOERROR
    }
    {{- end }}
    {{- with index . 3 }}
    {{- . | nindent 4 }}
    {{- end }}
    prometheus :{{ $root.Values.config.metricsPort }}
    }
{{- end }}

{{- define "node.centralForward" -}}
forward . __PILLAR__CLUSTER__DNS__ {
        {{ .Values.config.commProtocol }}
}
{{- end }}

{{- define "node.outsideForward" -}}
forward . {{ .Values.config.upstreamServers }}
{{- with .Values.config.upstreamForwardConfig }} {
{{- range . }}
        {{ . }}
{{- end }}
}
{{- end }}
{{- end }}

{{- define "node.corefile" -}}
{{- $root := . }}
{{- with .Values.config }}
{{- .dnsDomain }}:53 {
    {{- if .enableLogging }}
    log
    {{- end }}
    errors
    cache {
            success 9984 30
            denial 9984 5
            {{- with include "node.prefetch" $root }}
            {{ . }}
            {{- end }}
    }
    reload
    loop
    bind {{ include "node.bind" $root }}
    {{- include "node.centralForward" $root | nindent 4 }}
    {{- if .noIPv6Lookups }}
    template IN AAAA {
            rcode NOERROR
    }
    {{- end }}
    {{- with .extraClusterConfig }}
    {{- . | nindent 4 }}
    {{- end }}
    prometheus :{{ .metricsPort }}
    health {{ include "node.served" $root }}:{{ .healthPort }}
    ready {{ include "node.served" $root }}:{{ .readyPort }}
    }
{{- $central := include "node.centralForward" $root }}
{{- include "node.block" (list $root "in-addr.arpa" $central "") }}
{{- include "node.block" (list $root "ip6.arpa" $central "") }}
{{- include "node.block" (list $root "." (include "node.outsideForward" $root) .extraConfig) }}
{{- with .extraServerBlocks }}
{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Values of the other chart that would be silently without effect or are decided by the mode. */}}
{{- define "node.refuse" -}}
{{- range $name := list "setupInterface" "setupIptables" "skipTeardown" "bindIp" }}
{{- if hasKey $.Values.config $name }}
{{- fail (printf "config.%s: decided by mode (iptables, nftables, ipvs, cilium)" $name) }}
{{- end }}
{{- end }}
{{- range $name := list "dnsServer" "localDns" }}
{{- range (get $.Values.config $name) | replace " " "" | splitList "," }}
{{- $octets := regexMatch "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])([.]|$)){4}$" . }}
{{- if not (or (empty .) (and $octets (not (hasSuffix "." .))) (regexMatch "^[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*$" .)) }}
{{- fail (printf "config.%s: %s is no address" $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- /* The Corefile's endpoints; one of them would have all requests. */}}
{{- if not .Values.config.customConfig }}
{{- $ports := dict }}
{{- range $name := list "healthPort" "readyPort" "metricsPort" }}
{{- $port := get $.Values.config $name | toString }}
{{- with get $ports $port }}
{{- fail (printf "config.%s: %s is config.%s too" $name $port .) }}
{{- end }}
{{- $_ := set $ports $port $name }}
{{- end }}
{{- end }}
{{- if and .Values.cilium.redirect (ne .Values.mode "cilium") }}
{{- fail "cilium.redirect: only with mode cilium" }}
{{- end }}
{{- end }}
