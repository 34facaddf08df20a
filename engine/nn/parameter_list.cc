#include "engine/nn/parameter_list.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/safe_path.h"

namespace paddle::nn {
namespace {

wire::ParameterSpec make_spec(const ParameterRequest& request) {
  const config::ParameterAttributes& attributes = request.attributes;
  wire::ParameterSpec spec;
  spec.set_name(attributes.name.empty() ? request.default_name : attributes.name);
  for (const std::uint64_t dim : request.dims) spec.add_dims(dim);
  spec.set_sparse(attributes.sparse);
  spec.set_initial_mean(attributes.initial_mean);
  spec.set_initial_std(attributes.initial_std < 0 ? static_cast<float>(request.initial_std)
                                                  : attributes.initial_std);
  spec.set_learning_rate(attributes.learning_rate);
  if (attributes.l1) spec.set_l1(*attributes.l1);
  if (attributes.l2) spec.set_l2(*attributes.l2);
  if (attributes.clip_value) spec.set_clip_value(*attributes.clip_value);
  if (attributes.clip_norm) spec.set_clip_norm(*attributes.clip_norm);
  spec.set_is_static(attributes.is_static);
  if (attributes.sparse) *spec.mutable_table() = attributes.table;
  return spec;
}

bool same_shape(const wire::ParameterSpec& a, const wire::ParameterSpec& b) {
  return a.sparse() == b.sparse() && std::ranges::equal(a.dims(), b.dims());
}

bool same_attributes(wire::ParameterSpec a, wire::ParameterSpec b) {
  a.clear_dims();
  b.clear_dims();
  return a.SerializeAsString() == b.SerializeAsString();
}

// Only the name and the kind of storage may be given.
bool all_default(config::ParameterAttributes attributes) {
  const config::ParameterAttributes otherwise;
  attributes.name = otherwise.name;
  attributes.sparse = otherwise.sparse;
  return attributes == otherwise;
}

std::string shape(const wire::ParameterSpec& spec) {
  return fmt::format("{} [{}]", spec.sparse() ? "sparse" : "dense", fmt::join(spec.dims(), ", "));
}

}  // namespace

Result<std::size_t> ParameterList::declare(const ParameterRequest& request,
                                           const std::string& layer) {
  const wire::ParameterSpec spec = make_spec(request);
  if (!SafePath::parse(spec.name()) || spec.name().find('/') != std::string::npos) {
    return Error{Errc::kUsage,
                 fmt::format("parameter name '{}' cannot be a file name", spec.name()), ""};
  }
  const auto [known, is_new] = index_by_name_.try_emplace(spec.name(), specs_.size());
  if (is_new) {
    specs_.push_back(spec);
    owners_.push_back(layer);
    return known->second;
  }
  const wire::ParameterSpec& first = specs_[known->second];
  const std::string& owner = owners_[known->second];
  if (!same_shape(first, spec)) {
    return Error{Errc::kUsage,
                 fmt::format("parameter '{}' is {} here and {} in layer '{}'", spec.name(),
                             shape(spec), shape(first), owner),
                 ""};
  }
  if (!all_default(request.attributes) && !same_attributes(first, spec)) {
    return Error{Errc::kUsage,
                 fmt::format("parameter '{}' has other attributes here than in layer '{}'",
                             spec.name(), owner),
                 "give both the same, or give them in the first layer only"};
  }
  return known->second;
}

}  // namespace paddle::nn
