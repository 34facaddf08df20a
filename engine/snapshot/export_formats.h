// Formats of exported parameters. Each writes files that other programs read:
//
//   text         "<row id> <value> <value>" a line
//   vec          word2vec's text: "<rows> <width>", then "<word> <value> <value>" a line
//   npy          numpy: a dense parameter as its array, a table as records of id and values
//   npz          numpy: "<name>" of a dense parameter, "<name>.ids" and "<name>.values" of a table
//   safetensors  the same names; ids as int64
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/snapshot/export_sink.h"
#include "engine/snapshot/export_source.h"

namespace paddle::exporting {

struct ExportJob {
  std::span<Source> sources;
  std::vector<std::string> words;  // words of the ids of tables, from id 0 on; empty: none
};

struct Format {
  std::string_view name;
  bool takes_all;             // whether it takes any number of parameters, else one
  bool needs_file;            // whether it needs a file, and cannot write to a stream
  std::string_view reserved;  // a name that no array may have; "": none
  Status (*write)(const ExportJob& job, Sink& sink);
};
std::span<const Format> formats();

constexpr const char* kIds = ".ids";  // suffixes of the two arrays of a table
constexpr const char* kValues = ".values";
constexpr std::string_view kMetadata = "__metadata__";  // reserved by safetensors
// kUsage if two arrays would have the same name.
Status check_names(const Format& format, std::span<const wire::ParameterSpec> parameters);

Status write_text(const ExportJob& job, Sink& sink);
Status write_vec(const ExportJob& job, Sink& sink);
Status write_npy(const ExportJob& job, Sink& sink);
Status write_npz(const ExportJob& job, Sink& sink);
Status write_safetensors(const ExportJob& job, Sink& sink);

}  // namespace paddle::exporting
