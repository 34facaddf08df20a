// The graph of an ONNX model, built node by node from its inputs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/onnx.pb.h"

namespace paddle::onnx {

constexpr std::int64_t kIrVersion = 7;
constexpr std::int64_t kOpsetVersion =
    13;  // from 2020: runtimes support it, and ReduceMean's axes are attributes

// A tensor in the graph, by its name.
using Value = std::string;

struct Attribute {
  std::string name;
  std::int64_t number = 0;
  std::vector<std::int64_t> list = {};  // if not empty, used instead of the number
};

// Size of a tensor in one dimension: a number, or a name for a size that each run chooses.
struct Dimension {
  Dimension(std::uint64_t number)  // NOLINT: implicit by design
      : size(static_cast<std::int64_t>(number)) {}
  Dimension(std::string chosen) : name(std::move(chosen)) {}  // NOLINT: implicit by design

  std::int64_t size = 0;
  std::string name;
};

class Graph {
 public:
  // `reserved` are names that only input() and output() may give.
  explicit Graph(std::set<std::string> reserved) : names_(std::move(reserved)) {}

  // Names of values that nodes make after this call begin with `scope`.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // Adds a node with one output; equal nodes are added once.
  Value node(std::string_view type, std::initializer_list<Value> inputs,
             const std::vector<Attribute>& attributes = {});
  Value node(std::string_view type, std::span<const Value> inputs,
             const std::vector<Attribute>& attributes = {});
  Value scalar(float number);
  Value scalar(std::int64_t number);
  Value list(const std::vector<std::int64_t>& numbers);
  // A tensor of this shape, row after row; {}: a scalar.
  Value doubles(std::span<const double> numbers, std::span<const std::uint64_t> dims);

  // A name that no other value has: `wanted`, or a similar one.
  Value take_name(std::string wanted);
  // Adds an input, unless it was added before.
  Value input(const std::string& name, wire::onnx::TensorProto::DataType type,
              std::span<const Dimension> shape);
  // Sets the only output: a float for each column of each record.
  void output(const std::string& name, const Value& value, std::uint64_t width);
  // Adds a tensor for the values of a parameter. The caller appends at most `bytes` bytes to the
  // result.
  static std::string& add_tensor(wire::onnx::GraphProto& to, const std::string& name,
                                 wire::onnx::TensorProto::DataType type,
                                 std::span<const std::uint64_t> dims, std::uint64_t bytes);

  wire::onnx::GraphProto take() { return std::move(graph_); }

 private:
  Value constant(wire::onnx::TensorProto::DataType type, std::span<const std::uint64_t> dims,
                 const std::string& bytes);

  wire::onnx::GraphProto graph_;
  std::string scope_;
  std::set<std::string> names_;
  std::set<std::string> inputs_;
  std::map<std::string, Value> made_;  // nodes and constants, by all but their names
};

// The dimension that counts records.
constexpr const char* kRecords = "records";

}  // namespace paddle::onnx
