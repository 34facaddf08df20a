#include "engine/gpu/kernel_name.h"

#include <algorithm>
#include <string_view>

namespace paddle::device {
namespace {

// The compiler's own name for this function, which ends in "[with Kernel = <the type>]" or, by
// clang, in "[Kernel = <the type>]".
template <class Kernel>
std::string_view function_name() {
  return __PRETTY_FUNCTION__;
}

std::string without_namespaces(std::string_view type) {
  std::string name;
  for (std::size_t begin = 0; begin < type.size();) {
    const std::size_t end = std::min(type.find_first_of("<>,", begin), type.size() - 1) + 1;
    std::string_view part = type.substr(begin, end - begin);
    if (const std::size_t colon = part.rfind(':'); colon != part.npos)
      part.remove_prefix(colon + 1);
    name += part;
    begin = end;
  }
  return name;
}

}  // namespace

std::string name_of(const kernels::device::Kernel& kernel) {
  return std::visit(
      []<class K>(const K&) {
        std::string_view name = function_name<K>();
        name.remove_prefix(name.find("Kernel = ") + std::string_view("Kernel = ").size());
        return without_namespaces(name.substr(0, name.find_first_of(";]")));
      },
      kernel);
}

}  // namespace paddle::device
