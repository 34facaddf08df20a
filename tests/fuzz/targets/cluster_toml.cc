// A cluster file, the same text as a list of hosts, and its first line as hosts of an option.
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/node_list.h"
#include "tests/fuzz/input.h"

using namespace paddle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string whole = fuzz::grown(fuzz::Input(data, size).rest());
  const std::string_view text = whole;
  static_cast<void>(cli::parse_cluster(text, "cluster.toml"));
  static_cast<void>(cli::parse_hostfile(text, "hosts"));
  static_cast<void>(cli::parse_host_list(text.substr(0, text.find('\n')), "--hosts"));
  return 0;
}
