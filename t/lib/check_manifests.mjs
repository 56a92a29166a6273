// Checks manifests of Kubernetes by the schemas that ./build.sh check brings to build/kubernetes.
// Usage: node check_manifests.mjs FOLDER, with an array of manifests as JSON in standard input. It prints a line for each
// manifest: its kind, its name, and "valid", "no schema", or what is wrong.
//
// The schemas permit fields that they do not know, as the API server does. TypeScript's types of the same packages do
// not: a literal with another field is an error.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const modules = path.join(path.resolve(process.argv[2]), 'node_modules');
const ts = createRequire(path.join(modules, 'any.js'))('typescript');
const packages = ['kubernetes-models', '@kubernetes-models/prometheus-operator', '@kubernetes-models/gateway-api'];
const manifests = JSON.parse(fs.readFileSync(0, 'utf8'));

function modelOf(manifest) {
    return packages.map(name => `${name}/${manifest.apiVersion}/${manifest.kind}`)
        .find(name => fs.existsSync(path.join(modules, `${name}.js`)));
}

async function faultsOfValues(manifest, model) {
    const kinds = await import(pathToFileURL(path.join(modules, `${model}.js`)));
    try {
        new kinds[manifest.kind](manifest).validate();
        return [];
    } catch (error) {
        return [error.message];
    }
}

// One program for all manifests, since reading the types takes the time.
function faultsOfFields(checked) {
    const name = path.join(modules, '..', 'manifests.mts');
    const text = checked.map(({ manifest, model }, n) =>
        `import type { I${manifest.kind} as T${n} } from ${JSON.stringify(model)}; const m${n}: T${n} = ${JSON.stringify(manifest)}; m${n};\n`);
    const options = { noEmit: true, strict: true, skipLibCheck: true, module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, types: [] };
    const host = ts.createCompilerHost(options);
    const read = host.getSourceFile;
    host.getSourceFile = (file, ...more) => file === name ? ts.createSourceFile(file, text.join(''), more[0]) : read(file, ...more);
    const exists = host.fileExists;
    host.fileExists = file => file === name || exists(file);
    const faults = checked.map(() => []);
    for (const { file, start, messageText } of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
        const line = file?.fileName === name ? file.getLineAndCharacterOfPosition(start).line : 0;
        faults[line].push(ts.flattenDiagnosticMessageText(messageText, ' '));
    }
    return faults;
}

const checked = manifests.map(manifest => ({ manifest, model: modelOf(manifest) })).filter(({ model }) => model);
const ofFields = faultsOfFields(checked);
for (const manifest of manifests) {
    const n = checked.findIndex(one => one.manifest === manifest);
    const faults = n < 0 ? ['no schema'] : [...await faultsOfValues(manifest, checked[n].model), ...ofFields[n]];
    console.log(`${manifest.kind} ${manifest.metadata?.name}: ${faults.join('; ').replace(/\s+/g, ' ') || 'valid'}`);
}
