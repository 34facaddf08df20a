#include "engine/snapshot/export_formats.h"

#include <array>
#include <set>

#include <fmt/format.h>

namespace paddle::exporting {
namespace {

constexpr auto kFormats =
    std::to_array<Format>({{"text", false, false, "", write_text},
                           {"vec", false, false, "", write_vec},
                           {"npy", false, false, "", write_npy},
                           {"npz", true, true, "", write_npz},
                           {"safetensors", true, false, kMetadata, write_safetensors}});

}  // namespace

std::span<const Format> formats() {
  return kFormats;
}

Status check_names(const Format& format, std::span<const wire::ParameterSpec> parameters) {
  if (!format.takes_all) return {};
  std::set<std::string> names{std::string(format.reserved)};
  const auto add = [&](const std::string& name) -> Status {
    if (names.insert(name).second) return {};
    return Error{Errc::kUsage,
                 fmt::format("--format={}: two arrays would have the name '{}'", format.name, name),
                 "--parameter=NAME exports one parameter alone"};
  };
  for (const wire::ParameterSpec& spec : parameters) {
    PADDLE_TRY_STATUS(add(spec.name() + (spec.sparse() ? kValues : "")));
    if (spec.sparse()) PADDLE_TRY_STATUS(add(spec.name() + kIds));
  }
  return {};
}

}  // namespace paddle::exporting
