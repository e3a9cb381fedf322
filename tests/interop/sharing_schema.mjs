// Reads schema.ts with the TypeScript compiler and prints, as JSON, what is wrong with it in strict mode, what
// each exported type is made of, and whether schema.mdx compiles. Arguments: schema.ts, schema.mdx, and samples.ts,
// whose diagnostics are printed apart.
import { readFileSync } from "node:fs";
import { compile } from "@mdx-js/mdx";
import ts from "typescript";

const [schemaPath, mdxPath, samplesPath] = process.argv.slice(2);
const options = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022 };
const program = ts.createProgram([schemaPath, samplesPath], options);

function shape(node) {
  switch (node.kind) {
    case ts.SyntaxKind.StringKeyword:
      return { type: "string" };
    case ts.SyntaxKind.NumberKeyword:
      return { type: "number" };
    case ts.SyntaxKind.BooleanKeyword:
      return { type: "boolean" };
    case ts.SyntaxKind.UnknownKeyword:
      return {};
    case ts.SyntaxKind.ArrayType:
      return { type: "array", items: shape(node.elementType) };
    case ts.SyntaxKind.UnionType:
      return { enum: node.types.map((one) => one.literal.text) };
    case ts.SyntaxKind.TypeLiteral:
      return record(node.members);
    case ts.SyntaxKind.TypeReference:
      if (node.typeName.text === "Record") return { type: "object", additionalProperties: shape(node.typeArguments[1]) };
      return { $ref: `#/$defs/${node.typeName.text}` };
  }
  throw new Error(`no rule for ${ts.SyntaxKind[node.kind]}`);
}

function record(members) {
  return {
    type: "object",
    properties: Object.fromEntries(members.map((member) => [member.name.text, shape(member.type)])),
    required: members.filter((member) => !member.questionToken).map((member) => member.name.text),
  };
}

const exported = {};
for (const statement of program.getSourceFile(schemaPath).statements) {
  if (!statement.modifiers?.some((one) => one.kind === ts.SyntaxKind.ExportKeyword)) continue;
  exported[statement.name.text] = ts.isInterfaceDeclaration(statement) ? record(statement.members) : shape(statement.type);
}

const diagnostics = ts.getPreEmitDiagnostics(program).map((one) => ({
  file: one.file?.fileName.split("/").pop(),
  line: one.file ? one.file.getLineAndCharacterOfPosition(one.start).line + 1 : 0,
  text: ts.flattenDiagnosticMessageText(one.messageText, " "),
}));
const mdx = String(await compile(readFileSync(mdxPath, "utf8"))).length;
console.log(JSON.stringify({ exported, diagnostics, mdx }));
