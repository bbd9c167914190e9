# shellcheck shell=bash
# Keys, tokens and kubeconfigs, made anew at each bring-up; sourced.

make_authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
        -keyout "$PKI/ca.key" -out "$PKI/ca.crt" -config <(cat << 'CONFIG'
[req]
distinguished_name = name
x509_extensions = authority
prompt = no
[name]
CN = ragops-cluster-ca
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
CONFIG
    ) 2> /dev/null
}

# make_certificate NAME SUBJECT SUBJECT_ALT_NAME: for server and client use alike.
make_certificate() {
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" \
        -keyout "$PKI/$1.key" -out "$PKI/$1.csr" 2> /dev/null
    openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 3650 \
        -out "$PKI/$1.crt" -extfile <(cat << EXTENSIONS
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = $3
EXTENSIONS
    ) 2> /dev/null
}

# make_identity USER GROUP KUBECONFIG: a bearer token for USER and a kubeconfig that carries it.
make_identity() {
    local token
    token=$(openssl rand -hex 24)
    printf '%s,%s,%s,"%s"\n' "$token" "$1" "$1" "$2" >> "$PKI/tokens.csv"
    cat > "$3" << CONFIG
apiVersion: v1
kind: Config
current-context: ragops
clusters:
- name: ragops
  cluster: {server: "$API_SERVER", certificate-authority-data: $(base64 -w 0 "$PKI/ca.crt")}
users:
- name: ragops
  user: {token: $token}
contexts:
- name: ragops
  context: {cluster: ragops, user: ragops}
CONFIG
}

make_pki() {
    local kubernetes=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost
    make_authority
    make_certificate apiserver /CN=kube-apiserver \
        "$kubernetes,IP:127.0.0.1,IP:$NODE_IP,IP:$KUBERNETES_SERVICE_IP"
    make_certificate etcd /CN=etcd IP:127.0.0.1
    make_certificate kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" "DNS:$NODE_NAME,IP:$NODE_IP"
    make_certificate apiserver-to-kubelet /O=system:masters/CN=apiserver-to-kubelet DNS:apiserver
    openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/service-account.key"
    openssl ec -in "$PKI/service-account.key" -pubout -out "$PKI/service-account.pub" 2> /dev/null
    make_identity admin system:masters "$ADMIN_KUBECONFIG"
    make_identity system:kube-controller-manager system:kube-controller-manager "$PKI/controller-manager.kubeconfig"
    make_identity system:kube-scheduler system:kube-scheduler "$PKI/scheduler.kubeconfig"
    make_identity system:kube-proxy system:node-proxier "$PKI/kube-proxy.kubeconfig"
    make_identity "system:node:$NODE_NAME" system:nodes "$PKI/kubelet.kubeconfig"
}
