{{/* Who calls the API server has a token of its own and sees the policy versions. Arguments of all: root, name, component. */}}

{{- define "podium.accountMounts" -}}
{{- if has "kubernetes" .component.calls }}
- {name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
- {name: adapters, mountPath: /mnt/adapters, readOnly: true}
{{- end }}
{{- end }}

{{- define "podium.accountVolumes" -}}
{{- if has "kubernetes" .component.calls }}
{{ include "podium.account" 3600 }}
- {name: adapters, persistentVolumeClaim: {claimName: {{ .root.Values.inference.adapters.claimName }}, readOnly: true}}
{{- end }}
{{- end }}

{{/* A token, and the authority of the API server. Argument: seconds the token is valid for. */}}
{{- define "podium.account" -}}
- name: account
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: {{ . }}}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
