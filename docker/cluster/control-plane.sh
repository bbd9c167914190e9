# shellcheck shell=bash
# etcd, API server, controller manager, scheduler; sourced.

start_etcd() {
    ETCD_UNSUPPORTED_ARCH=$(dpkg --print-architecture) launch etcd etcd --name "$NODE_NAME" --data-dir "$STATE/etcd" \
        --listen-client-urls https://127.0.0.1:23790 --advertise-client-urls https://127.0.0.1:23790 \
        --listen-peer-urls http://127.0.0.1:23800 --initial-advertise-peer-urls http://127.0.0.1:23800 \
        --initial-cluster "$NODE_NAME=http://127.0.0.1:23800" --logger zap \
        --client-cert-auth --trusted-ca-file "$PKI/ca.crt" --cert-file "$PKI/etcd.crt" --key-file "$PKI/etcd.key"
}

start_apiserver() {
    launch kube-apiserver "$BIN/kube-apiserver" \
        --bind-address "$NODE_IP" --advertise-address "$NODE_IP" --secure-port 6443 --insecure-port 0 \
        --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
        --etcd-servers https://127.0.0.1:23790 --etcd-cafile "$PKI/ca.crt" \
        --etcd-certfile "$PKI/apiserver.crt" --etcd-keyfile "$PKI/apiserver.key" \
        --client-ca-file "$PKI/ca.crt" --token-auth-file "$PKI/tokens.csv" --authorization-mode Node,RBAC \
        --enable-admission-plugins NodeRestriction --allow-privileged \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$PKI/service-account.pub" \
        --service-account-signing-key-file "$PKI/service-account.key" \
        --kubelet-certificate-authority "$PKI/ca.crt" --kubelet-client-certificate "$PKI/apiserver-to-kubelet.crt" \
        --kubelet-client-key "$PKI/apiserver-to-kubelet.key" --kubelet-preferred-address-types InternalIP \
        --service-cluster-ip-range "$SERVICE_CIDR" --profiling=false
}

start_controller_manager() {
    launch kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig "$PKI/controller-manager.kubeconfig" \
        --bind-address 127.0.0.1 --port 0 --leader-elect=false --use-service-account-credentials \
        --service-account-private-key-file "$PKI/service-account.key" --root-ca-file "$PKI/ca.crt" \
        --cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key"
}

start_scheduler() {
    launch kube-scheduler "$BIN/kube-scheduler" --kubeconfig "$PKI/scheduler.kubeconfig" --bind-address 127.0.0.1 \
        --port 0 --leader-elect=false
}
