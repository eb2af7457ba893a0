// Lists the variants of the types that models' calls and answers stand in, from
// the libraries of the providers themselves, with a sample of each: the value
// that its type asks for, and nothing that it allows to leave out.
//
//	node variants.mjs FOLDER    # with node_modules of openai, @anthropic-ai/sdk and typescript
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.argv[2]);
const ts = createRequire(join(folder, "package.json"))("typescript");

const sources = [
  ["openai", "resources/chat/completions/completions", ["ChatCompletionMessageParam", "ChatCompletionMessageToolCall", "ChatCompletion", "ChatCompletion.Choice.finish_reason"]],
  ["openai", "resources/responses/responses", ["ResponseOutputItem", "ResponseInputItem", "Response.status"]],
  ["@anthropic-ai/sdk", "resources/messages/messages", ["ContentBlock", "ContentBlockParam", "Message.stop_reason"]],
  ["@anthropic-ai/sdk", "resources/messages/batches", ["MessageBatchResult"]],
  ["@anthropic-ai/sdk", "resources/beta/messages/messages", ["BetaContentBlock", "BetaContentBlockParam", "BetaMessage.stop_reason"]],
];

const entry = join(folder, "entry.ts");
writeFileSync(entry, sources.map(([pkg, path], i) => `import * as m${i} from "${pkg}/${path}"; export { m${i} };`).join("\n"));
const program = ts.createProgram([entry], { strict: true, noEmit: true, skipLibCheck: true, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, target: ts.ScriptTarget.ES2022 });
const checker = program.getTypeChecker();
const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)));
const real = (s) => (s.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s);
const members = (t) => (t.isUnion() ? t.types : [t]);
const missing = (t) => (t.flags & (ts.TypeFlags.Null | ts.TypeFlags.Undefined)) !== 0;

// find follows a name, through namespaces, to a type, and then to a property of it.
function find(module, path) {
  let exports = checker.getExportsOfModule(module), type;
  for (const name of path.split(".")) {
    const s = exports?.find((e) => e.name === name);
    if (s) {
      type = checker.getDeclaredTypeOfSymbol(real(s));
      exports = real(s).exports ? [...real(s).exports.values()] : undefined;
    } else {
      const p = type?.getProperty(name);
      if (!p) throw new Error(`${path}: there is no ${name}`);
      type = checker.getTypeOfSymbol(p);
    }
  }
  return type;
}

function sample(t, depth = 0) {
  if (t.isUnion()) t = t.types.find(missing) ?? t.types[0];
  if (t.isLiteral()) return t.value;
  if (t.flags & ts.TypeFlags.BooleanLiteral) return t.intrinsicName === "true";
  if (t.flags & ts.TypeFlags.StringLike) return "text";
  if (t.flags & ts.TypeFlags.NumberLike) return 1;
  if (missing(t)) return null;
  if (checker.isArrayType(t) || depth > 6) return [];
  if (!(t.flags & ts.TypeFlags.Object || t.isIntersection())) return {};
  const out = {};
  for (const p of checker.getPropertiesOfType(t)) {
    if (!(p.flags & ts.SymbolFlags.Optional)) out[p.name] = sample(checker.getTypeOfSymbol(p), depth + 1);
  }
  return out;
}

const name = (t) => (t.aliasSymbol ?? t.symbol)?.name ?? "";
const lines = [];
for (const [i, [pkg, path, types]] of sources.entries()) {
  const version = JSON.parse(readFileSync(join(folder, "node_modules", pkg, "package.json"))).version;
  const module = real(exported.find((e) => e.name === `m${i}`));
  lines.push(JSON.stringify({ package: pkg, version, module: path }));
  for (const path of types) {
    for (const t of members(find(module, path)).filter((t) => !missing(t))) {
      lines.push(JSON.stringify({ of: path, variant: t.isLiteral() ? t.value : name(t), sample: sample(t) }));
    }
  }
}
writeFileSync(process.stdout.fd, lines.join("\n") + "\n");
