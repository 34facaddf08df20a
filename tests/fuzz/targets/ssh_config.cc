// A jump on the first line, a host on the second, then the ssh_config of a folder, which OpenSSH
// reads and we judge. An ssh_config that would run a program, read other files or ask for names is
// left out.
#include <algorithm>

#include "remote/launcher/ssh_target.h"
#include "remote/launcher/ssh_tokens.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

using namespace paddle;
using namespace paddle::remote;

namespace {

bool stays_inside(std::string text) {
  const auto lower = [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); };
  std::ranges::transform(text, text.begin(), lower);
  for (const char* word : {"match", "include", "canonical", "pkcs11", "securitykey", "known"}) {
    if (text.find(word) != text.npos) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr Duration kPatience = std::chrono::seconds(5);
  static const test::TemporaryFolder kFolder;
  fuzz::Input input(data, size);
  const std::string jump(input.text_until('\n'));
  const std::string host(input.text_until('\n'));
  const std::string config(input.rest());
  static_cast<void>(parse_jump(jump));
  static_cast<void>(expand_tokens(jump, {{'h', host}, {'p', "22"}}));
  static_cast<void>(expand_variables(jump));
  if (!check_host_name(host) || config.empty() || !stays_inside(config)) return 0;
  kFolder.write("config", config);
  NodeSpec node;
  node.name = "node";
  node.host = host;
  node.ssh_directory = kFolder.path();
  if (const auto target = resolve(node, SteadyClock().now() + kPatience)) {
    static_cast<void>(target->label());
    static_cast<void>(target->known_name());
  }
  return 0;
}
