// The safetensors format: u64 bytes of the header, the header as JSON, then the tensors,
// little-endian and row-major.
#include "base/json.h"
#include "engine/snapshot/export_formats.h"

namespace paddle::exporting {
namespace {

// One array of the file: ids of a table, or values of a parameter.
struct Tensor {
  const Source* source;
  bool is_ids;
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

// Ids come first, so that each tensor begins at a multiple of its elements' size.
std::vector<Tensor> tensors_of(std::span<const Source> sources) {
  std::vector<Tensor> tensors;
  for (const Source& source : sources) {
    if (!source.is_table()) continue;
    const std::uint64_t bytes = source.rows() * sizeof(std::uint64_t);
    tensors.push_back({&source, true, source.name() + kIds, {source.rows()}, bytes});
  }
  for (const Source& source : sources) {
    const std::uint64_t bytes = source.rows() * source.width() * sizeof(float);
    const std::string name = source.name() + (source.is_table() ? kValues : "");
    tensors.push_back({&source, false, name, source.shape(), bytes});
  }
  return tensors;
}

std::string header_of(const std::vector<Tensor>& tensors) {
  JsonObject header;
  header.add(kMetadata, JsonObject().add("format", "pt"));
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    JsonObject fields;
    fields.add("dtype", tensor.is_ids ? "I64" : "F32");
    fields.add("shape", std::span<const std::uint64_t>(tensor.shape));
    const std::vector<std::uint64_t> offsets{offset, offset + tensor.bytes};
    header.add(tensor.name, fields.add("data_offsets", std::span<const std::uint64_t>(offsets)));
    offset += tensor.bytes;
  }
  std::string text = header.text();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

Status write_safetensors(const ExportJob& job, Sink& sink) {
  const std::vector<Tensor> tensors = tensors_of(job.sources);
  const std::string header = header_of(tensors);
  const std::uint64_t size = header.size();
  PADDLE_TRY_STATUS(sink.write(bytes_of(std::span<const std::uint64_t>(&size, 1))));
  PADDLE_TRY_STATUS(sink.write(header));
  for (const Tensor& tensor : tensors) {
    PADDLE_TRY_STATUS(tensor.source->for_rows([&](std::uint64_t id, std::span<const float> values) {
      return tensor.is_ids ? sink.write(bytes_of(std::span<const std::uint64_t>(&id, 1)))
                           : sink.write(bytes_of(values));
    }));
  }
  return {};
}

}  // namespace paddle::exporting
