// A known_hosts file, for a host with a port, and the first line as a list of names.
#include "remote/launcher/known_hosts.h"

#include "tests/fuzz/input.h"

using namespace paddle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::Input(data, size).rest();
  remote::KnownHosts known({"[node1]:2222", "node1"});
  known.add(text, "known_hosts");
  static_cast<void>(known.types());
  static_cast<void>(known.check("AAAA"));
  static_cast<void>(remote::names_host(text.substr(0, text.find('\n')), "node1"));
  return 0;
}
