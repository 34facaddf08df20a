# Process i, pservers first, is on node i modulo their number, at the ports that are free there yet. Where
# trainers listen, each has one; the last one is for a meeting on the node of the first trainer.
endpoints=$(echo "$addresses" | awk -v pservers={{pservers}} -v trainers={{trainers}} -v port="$first_port" \
  -v block=$((ports_num + ports_num_for_sparse)) '
  function next_on(node, ports) {
    used[node] += ports
    return $(node + 1) ":" (port + used[node] - ports)
  }
  { for (i = 0; i < pservers; ++i) printf "%s%s", (i ? "," : ""), next_on(i % NF, block)
    for (i = pservers; i < pservers + trainers; ++i)
      printf "%s%s", (i > pservers ? "," : " "), next_on(i % NF, 1)
    printf " %s", next_on(pservers % NF, 1) }')
pservers=${endpoints%% *} endpoints=${endpoints#* }
trainers=${endpoints% *} master=${endpoints#* }
