#include "engine/model/onnx_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"

namespace paddle::onnx {
namespace {

using wire::onnx::AttributeProto;
using wire::onnx::NodeProto;
using wire::onnx::TensorProto;

void describe(wire::onnx::ValueInfoProto& to, const std::string& name, TensorProto::DataType type,
              std::span<const Dimension> shape) {
  to.set_name(name);
  auto& tensor = *to.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (const Dimension& each : shape) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    each.name.empty() ? dim.set_dim_value(each.size) : dim.set_dim_param(each.name);
  }
}

template <class T>
std::string raw(std::span<const T> values) {
  const ByteSpan bytes = bytes_of(values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Value Graph::node(std::string_view type, std::initializer_list<Value> inputs,
                  const std::vector<Attribute>& attributes) {
  return node(type, std::span(inputs.begin(), inputs.size()), attributes);
}

Value Graph::node(std::string_view type, std::span<const Value> inputs,
                  const std::vector<Attribute>& attributes) {
  NodeProto made;
  made.set_op_type(std::string(type));
  for (const Value& each : inputs) made.add_input(each);
  for (const Attribute& each : attributes) {
    AttributeProto& attribute = *made.add_attribute();
    attribute.set_name(each.name);
    attribute.set_type(each.list.empty() ? AttributeProto::INT : AttributeProto::INTS);
    attribute.set_i(each.number);
    for (const std::int64_t number : each.list) attribute.add_ints(number);
  }
  Value& value = made_[made.SerializeAsString()];
  if (!value.empty()) return value;
  value = take_name(fmt::format("{}/{}", scope_, type));
  made.set_name(value);
  made.add_output(value);
  *graph_.add_node() = std::move(made);
  return value;
}

Value Graph::scalar(float number) {
  return constant(TensorProto::FLOAT, {}, raw(std::span<const float>(&number, 1)));
}

Value Graph::scalar(std::int64_t number) {
  return constant(TensorProto::INT64, {}, raw(std::span<const std::int64_t>(&number, 1)));
}

Value Graph::list(const std::vector<std::int64_t>& numbers) {
  const std::uint64_t size = numbers.size();
  return constant(TensorProto::INT64, std::span(&size, 1),
                  raw(std::span<const std::int64_t>(numbers)));
}

Value Graph::doubles(std::span<const double> numbers, std::span<const std::uint64_t> dims) {
  return constant(TensorProto::DOUBLE, dims, raw(numbers));
}

Value Graph::constant(TensorProto::DataType type, std::span<const std::uint64_t> dims,
                      const std::string& bytes) {
  Value& value = made_[fmt::format("{} {} ", static_cast<int>(type), fmt::join(dims, ",")) + bytes];
  if (!value.empty()) return value;
  value = take_name("constant");
  add_tensor(graph_, value, type, dims, bytes.size()) = bytes;
  return value;
}

Value Graph::take_name(std::string wanted) {
  const std::string stem = wanted;
  for (int i = 2; !names_.insert(wanted).second; ++i) wanted = fmt::format("{}_{}", stem, i);
  return wanted;
}

Value Graph::input(const std::string& name, TensorProto::DataType type,
                   std::span<const Dimension> shape) {
  if (inputs_.insert(name).second) describe(*graph_.add_input(), name, type, shape);
  return name;
}

void Graph::output(const std::string& name, const Value& value, std::uint64_t width) {
  NodeProto& last = *graph_.add_node();
  last.set_op_type("Identity");
  last.set_name(name);
  last.add_input(value);
  last.add_output(name);
  const std::initializer_list<Dimension> shape{Dimension(kRecords), Dimension(width)};
  describe(*graph_.add_output(), name, TensorProto::FLOAT, shape);
}

std::string& Graph::add_tensor(wire::onnx::GraphProto& to, const std::string& name,
                               TensorProto::DataType type, std::span<const std::uint64_t> dims,
                               std::uint64_t bytes) {
  TensorProto& tensor = *to.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::uint64_t dim : dims) tensor.add_dims(static_cast<std::int64_t>(dim));
  tensor.mutable_raw_data()->reserve(bytes);
  return *tensor.mutable_raw_data();
}

}  // namespace paddle::onnx
