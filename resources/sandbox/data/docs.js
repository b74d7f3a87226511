SwaggerUIBundle({
  url: "/spec", dom_id: "#page", deepLinking: true, docExpansion: "list", filter: true,
  tryItOutEnabled: true, persistAuthorization: true, validatorUrl: null,
});
