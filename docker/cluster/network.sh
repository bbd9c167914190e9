# shellcheck shell=bash
# The node's link, routes, kernel settings and packet rules; sourced.

# What bring-up, kubelet and kube-proxy set; bring-down puts back what was there before.
SYSCTLS="net.ipv4.ip_forward net.ipv4.conf.all.route_localnet net.bridge.bridge-nf-call-iptables
    vm.overcommit_memory kernel.panic kernel.panic_on_oops"

sysctl_file() { printf '/proc/sys/%s\n' "${1//.//}"; }

save_sysctls() {
    local name
    [ ! -e "$STATE/sysctls.before" ] || return 0
    for name in $SYSCTLS; do
        [ ! -e "$(sysctl_file "$name")" ] || printf '%s %s\n' "$name" "$(cat "$(sysctl_file "$name")")"
    done > "$STATE/sysctls.before"
}

restore_sysctls() {
    local name value
    [ -e "$STATE/sysctls.before" ] || return 0
    while read -r name value; do
        printf '%s\n' "$value" > "$(sysctl_file "$name")"
    done < "$STATE/sysctls.before"
}

refuse_collision() {
    local route
    route=$(ip -4 route show root "$NET.0.0/23" | grep -v " dev $LINK " || true)
    [ -z "$route" ] || die "range $NET.0.0/23 is in use ($route); set RAGOPS_CLUSTER_NET to two other octets"
}

# A bridge and not a dummy link, which some kernels lack; the pods hang on the same bridge. Service addresses are routed
# to it so that a packet that no rule translated dies here and never leaves the machine.
make_link() {
    [ -e /proc/sys/net/bridge ] || modprobe br_netfilter || die "this kernel has no br_netfilter"
    ip link add "$LINK" type bridge
    ip link set "$LINK" address 02:72:61:67:00:01
    ip address add "$NODE_IP/24" dev "$LINK"
    ip link set "$LINK" up
    ip route add "$SERVICE_CIDR" dev "$LINK"
    printf '1\n' > /proc/sys/net/ipv4/ip_forward
    printf '1\n' > /proc/sys/net/bridge/bridge-nf-call-iptables
}

remove_link() {
    local port
    for port in $(ip -o link show master "$LINK" 2> /dev/null | sed -E 's/^[0-9]+: ([^@:]+).*/\1/'); do
        ip link delete "$port" 2> /dev/null || true
    done
    ip link delete "$LINK" 2> /dev/null || true
}

# Pods reach each other, services and this node, and nothing else: what they send beyond is refused at once.
make_rules() {
    iptables-restore --wait 10 --noflush << RULES
*filter
:RAGOPS-INPUT - [0:0]
:RAGOPS-FORWARD - [0:0]
-A RAGOPS-INPUT -i $LINK -j ACCEPT
-A RAGOPS-FORWARD -i $LINK -o $LINK -j ACCEPT
-A RAGOPS-FORWARD -i $LINK -j REJECT
-A RAGOPS-FORWARD -o $LINK -j REJECT
-I INPUT -j RAGOPS-INPUT
-I FORWARD -j RAGOPS-FORWARD
COMMIT
RULES
}

# Reads iptables-save; prints the iptables-restore --noflush input that takes out our chains, kube-proxy's, the
# kubelet's and CNI's, with every rule that jumps to them, and leaves all others as they are.
rules_removal() {
    awk '
        function flush_table() {
            if (!chains) return
            printf "%s\n%s%s", table, declared, jumps
            for (name in ours) print "-X " name
            print "COMMIT"
        }
        /^\*/ { table = $0; declared = jumps = ""; chains = 0; delete ours }
        /^:(KUBE|CNI|RAGOPS)-/ { name = substr($1, 2); ours[name]; chains++; declared = declared ":" name " - [0:0]\n" }
        /^-A / && !($2 in ours) {
            for (i = 3; i < NF; i++) if (($i == "-j" || $i == "-g") && $(i + 1) in ours) {
                sub(/^-A/, "-D"); jumps = jumps $0 "\n"; break
            }
        }
        /^COMMIT/ { flush_table() }
    '
}

remove_rules() {
    local family removal
    for family in iptables ip6tables; do
        removal=$("$family-save" 2> /dev/null | rules_removal)
        [ -z "$removal" ] || "$family-restore" --wait 10 --noflush <<< "$removal"
    done
}
