// Graph of an ONNX model, built node by node from its inputs on.
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
    13;  // of 2020: runtimes have it, and ReduceMean's axes are attributes

// A tensor in the graph, by its name.
using Value = std::string;

struct Attribute {
  std::string name;
  std::int64_t number = 0;
  std::vector<std::int64_t> list = {};  // not empty: this instead of the number
};

// Size of a tensor in one dimension: a number, or a name for one that each run chooses.
struct Dimension {
  Dimension(std::uint64_t number)  // NOLINT: implicit by design
      : size(static_cast<std::int64_t>(number)) {}
  Dimension(std::string chosen) : name(std::move(chosen)) {}  // NOLINT: implicit by design

  std::int64_t size = 0;
  std::string name;
};

class Graph {
 public:
  // `reserved` are names that only input() and output() give.
  explicit Graph(std::set<std::string> reserved) : names_(std::move(reserved)) {}

  // The values that nodes make from now on have names that begin with this.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // A node with one output. Equal nodes are one.
  Value node(std::string_view type, std::initializer_list<Value> inputs,
             const std::vector<Attribute>& attributes = {});
  Value node(std::string_view type, std::span<const Value> inputs,
             const std::vector<Attribute>& attributes = {});
  Value scalar(float number);
  Value scalar(std::int64_t number);
  Value list(const std::vector<std::int64_t>& numbers);

  // A name that no other value has: `wanted`, or one like it.
  Value take_name(std::string wanted);
  // Inputs, once each.
  Value input(const std::string& name, wire::onnx::TensorProto::DataType type,
              std::span<const Dimension> shape);
  // The only output, a float for each column of each record.
  void output(const std::string& name, const Value& value, std::uint64_t width);
  // For the values of a parameter: no more than `bytes` are added to it.
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

// Of each record.
constexpr const char* kRecords = "records";

}  // namespace paddle::onnx
