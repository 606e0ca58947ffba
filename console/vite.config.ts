import localesPlugin from "@react-aria/optimize-locales-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  plugins: [react(), { ...localesPlugin.vite({ locales: ["en-US"] }), enforce: "pre" }],
  build: {
    outDir: "../services/gateway/console/site",
    emptyOutDir: true,
    manifest: "manifest.json",
    // The policy allows no inline script, and every browser that has the needed headers preloads.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    target: "es2022",
    rollupOptions: {
      output: {
        manualChunks(id: string) {
          if (/node_modules\/(react|react-dom|scheduler)\//.test(id)) return "react";
          if (/node_modules\/@tanstack\//.test(id)) return "tanstack";
          return undefined;
        },
      },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:18500", "/console/sign-in": "http://127.0.0.1:18500" } },
});
