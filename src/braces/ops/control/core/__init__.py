"""What every block operator needs: interface, residuals, value flow."""
