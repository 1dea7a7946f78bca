//! `#[derive(Fixed)]` makes a struct a key or a value of tables. The crate `firndex` re-exports it, and documents it at
//! `firndex::Fixed`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Member, parse_macro_input};

/// Implements `firndex::Fixed` for a struct whose fields implement it. Its bytes are those of its fields, in order,
/// without padding.
#[proc_macro_derive(Fixed)]
pub fn derive_fixed(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    implement(&item).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(item: &DeriveInput) -> Result<TokenStream, Error> {
    let name = &item.ident;
    let fields = fields_of(item)?;
    if !item.generics.params.is_empty() {
        let says = "a pool knows the sizes of its keys and values, which a generic type leaves open: derive `Fixed` for a \
                    struct without parameters";
        return Err(Error::new(item.generics.span(), says));
    }
    let members: Vec<Member> = fields.members().collect();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let sizes: Vec<_> = types
        .iter()
        .map(|kind| quote_spanned!(kind.span() => <#kind as ::firndex::Fixed>::BYTES))
        .collect();
    // Each field begins behind all earlier ones.
    let begins: Vec<_> = (0..sizes.len())
        .map(|index| {
            let before = &sizes[..index];
            quote!(const { 0 #(+ #before)* })
        })
        .collect();
    let shape = shape_of(fields);
    Ok(quote! {
        #[automatically_derived]
        impl ::firndex::Fixed for #name {
            const BYTES: usize = 0 #(+ #sizes)*;

            #[inline(always)]
            fn word(self, index: usize) -> u64 {
                0 #(| ::firndex::fields::word(self.#members, #begins, index))*
            }

            #[inline(always)]
            fn of_words(word: impl Fn(usize) -> u64) -> Self {
                Self { #(#members: ::firndex::fields::of_words::<#types>(#begins, &word)),* }
            }

            fn shape() -> ::std::option::Option<::firndex::Shape> {
                #shape
            }
        }
    })
}

/// Its shape as an expression. A field without a name that has no others beside it is all that there is.
fn shape_of(fields: &Fields) -> TokenStream {
    let shapes = fields.iter().map(|field| {
        let kind = &field.ty;
        quote!(<#kind as ::firndex::Fixed>::shape())
    });
    match fields {
        Fields::Unnamed(only) if only.unnamed.len() == 1 => quote!(#(#shapes)*),
        Fields::Unnamed(_) | Fields::Unit => {
            quote!(::std::option::Option::Some(::firndex::Shape::Tuple(::std::vec![#(#shapes?),*])))
        }
        Fields::Named(_) => {
            let names = fields.iter().filter_map(|field| field.ident.as_ref());
            let names = names.map(|name| name.unraw().to_string());
            quote!(::std::option::Option::Some(::firndex::Shape::Struct(::std::vec![
                #((::std::string::String::from(#names), #shapes?)),*
            ])))
        }
    }
}

/// The fields, if every byte pattern of the type can be a value.
fn fields_of(item: &DeriveInput) -> Result<&Fields, Error> {
    let what = match &item.data {
        Data::Struct(of) => return Ok(&of.fields),
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    let says = format!(
        "not every pattern of bytes is a value of {what}, and a pool may hold any: derive `Fixed` for a struct, and keep \
         the number of a variant in it"
    );
    Err(Error::new(item.ident.span(), says))
}
