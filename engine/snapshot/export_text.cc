#include <iterator>

#include <fmt/format.h>

#include "engine/snapshot/export_formats.h"

namespace paddle::exporting {
namespace {

// fmt prints the shortest text that reads back as the same float.
Status write_line(std::string_view head, std::span<const float> values, fmt::memory_buffer& line,
                  Sink& sink) {
  line.clear();
  line.append(head.data(), head.data() + head.size());
  for (const float value : values) fmt::format_to(std::back_inserter(line), " {}", value);
  line.push_back('\n');
  return sink.write(std::string_view(line.data(), line.size()));
}

}  // namespace

Status write_text(const ExportJob& job, Sink& sink) {
  fmt::memory_buffer line;
  return job.sources.front().for_rows([&](std::uint64_t id, std::span<const float> values) {
    return write_line(fmt::format_int(id).c_str(), values, line, sink);
  });
}

// A row without a word gets its id as the word.
Status write_vec(const ExportJob& job, Sink& sink) {
  const Source& source = job.sources.front();
  PADDLE_TRY_STATUS(sink.write(fmt::format("{} {}\n", source.rows(), source.width())));
  fmt::memory_buffer line;
  return source.for_rows([&](std::uint64_t id, std::span<const float> values) {
    if (id < job.words.size()) return write_line(job.words[id], values, line, sink);
    return write_line(fmt::format_int(id).c_str(), values, line, sink);
  });
}

}  // namespace paddle::exporting
